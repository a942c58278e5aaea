# Cache::SizeAwareFileCache with the suite's limit, and its own methods on the hot path.
use v5.36;
use Cache::SizeAwareFileCache;

sub (%of) {
    my $cache = Cache::SizeAwareFileCache->new({
        cache_root      => $of{folder},
        namespace       => 'lab',
        directory_umask => oct '077',
        $of{bytes_max} ? (max_size => $of{bytes_max}) : (),
    });
    return {
        object => $cache,
        get    => $cache->can('get'),
        set    => sub { $_[0]->set($_[1], $_[2]); 1 },
        delete => $cache->can('remove'),
        close  => sub { },
    };
}
