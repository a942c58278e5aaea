# CHI over memcached, with or without an L1 cache in front.
use v5.36;
use CHI;
use CHI::Driver::Memcached::libmemcached;
use File::Basename qw(dirname);
use lib dirname(__FILE__) . '/../perl_libmemcached';

use MemcachedAnswers qw(server miss refusal);

sub (%of) {
    my $settings = $of{settings};
    my $has_l1   = $settings->{l1} eq 'memory';
    my $cache    = CHI->new(
        driver       => 'Memcached::libmemcached',
        servers      => [server($settings)],
        namespace    => 'lab',
        on_get_error => 'die',
        on_set_error => 'die',
        $has_l1 ? (l1_cache => {driver => 'Memory', global => 0}) : (),
    );
    # CHI ignores its driver's answer, so ask the client behind it.
    my $client = $cache->memd;
    return {
        object => $cache,
        get    => sub { $_[0]->get($_[1]) // miss($client) },
        # The L1 also stores values that the server refused, and a get finds them there.
        set    => sub { $_[0]->set($_[1], $_[2]); refusal($client) || $has_l1 },
        delete => sub { $_[0]->remove($_[1]); $client->errstr == 0 || miss($client) },
        close  => sub { $client->disconnect_all },
    };
}
