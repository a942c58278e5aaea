# Redis.pm, the Redis client on CPAN.
use v5.36;
use Redis;

sub (%of) {
    my $settings = $of{settings};
    my @ttl      = $settings->{ttl_seconds} ? (PX => int(1_000 * $settings->{ttl_seconds})) : ();
    my $redis    = Redis->new(
        defined $settings->{socket}
        ? (sock => $settings->{socket})
        : (server => "$settings->{host}:$settings->{port}"),
    );
    return {
        object => $redis,
        get    => sub { $_[0]->get($_[1]) },
        set    => sub {
            return 1 if eval { $_[0]->set($_[1], $_[2], @ttl) };
            # No room, and nothing to evict.
            return 0 if $@ =~ /\bOOM command not allowed/;
            die $@;
        },
        delete => sub { $_[0]->del($_[1]) },
        close  => sub { $_[0]->quit },
    };
}
