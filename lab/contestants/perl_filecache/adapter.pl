# Cache::FileCache, with its own methods on the hot path.
use v5.36;
use Cache::FileCache;

sub (%of) {
    my $cache = Cache::FileCache->new({
        cache_root      => $of{folder},
        namespace       => 'lab',
        directory_umask => oct '077',
    });
    return {
        object => $cache,
        get    => $cache->can('get'),
        set    => sub { $_[0]->set($_[1], $_[2]); 1 },
        delete => $cache->can('remove'),
        close  => sub { },
    };
}
