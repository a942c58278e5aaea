# Cache::Mmap, with the buckets of the settings.
use v5.36;
use Cache::Mmap;

sub (%of) {
    my $cache = Cache::Mmap->new("$of{folder}/cache.mmap", {
        buckets    => $of{settings}{buckets},
        bucketsize => $of{settings}{bucketsize},
        strings    => $of{value} eq 'binary' ? 1 : 0,
    });
    return {
        object => $cache,
        get    => $cache->can('read'),
        set    => $cache->can('write'),
        # In scalar context `delete` answers the value, which may be false; in a list also whether.
        delete => sub { my ($found) = $_[0]->delete($_[1]); $found },
        close  => sub { },
    };
}
