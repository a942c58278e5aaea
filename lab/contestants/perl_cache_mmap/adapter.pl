# Cache::Mmap with the buckets of the settings, or as many of 64 KiB as fit into the limit.
use v5.36;
use Cache::Mmap;
use List::Util qw(max);

use constant {
    BUCKET_SIZE => 65_536,
    # The module's own page size, before the first bucket.
    HEAD_SIZE => 1_024,
};

sub (%of) {
    my ($settings, $bytes_max) = @of{qw(settings bytes_max)};
    my $bucket_size = $settings->{bucketsize} // BUCKET_SIZE;
    my $buckets     = $settings->{buckets};
    $buckets //= max(1, int(($bytes_max - HEAD_SIZE) / $bucket_size)) if $bytes_max;
    my $cache = Cache::Mmap->new("$of{folder}/cache.mmap", {
        bucketsize => $bucket_size,
        defined $buckets ? (buckets => $buckets) : (),
        strings => $of{value} eq 'binary' ? 1 : 0,
    });
    return {
        object => $cache,
        get    => $cache->can('read'),
        set    => $cache->can('write'),
        # In scalar context `delete` returns the value, which may be false; in list context also
        # whether the key existed.
        delete => sub { my ($found) = $_[0]->delete($_[1]); $found },
        close  => sub { },
    };
}
