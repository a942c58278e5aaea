# Cache::Memcached::libmemcached. Only empty answers are examined; all others are passed on.
use v5.36;
use Cache::Memcached::libmemcached;
use File::Basename qw(dirname);
use POSIX qw(ceil);
use lib dirname(__FILE__);

use MemcachedAnswers qw(server miss refusal);

sub (%of) {
    my @ttl = $of{settings}{ttl_seconds} ? (ceil($of{settings}{ttl_seconds})) : ();
    return {
        object => Cache::Memcached::libmemcached->new({servers => [server($of{settings})]}),
        get    => sub { $_[0]->get($_[1]) // miss($_[0]) },
        set    => sub { $_[0]->set($_[1], $_[2], @ttl) || refusal($_[0]) },
        delete => sub { $_[0]->delete($_[1]) || miss($_[0]) },
        close  => sub { $_[0]->disconnect_all },
    };
}
