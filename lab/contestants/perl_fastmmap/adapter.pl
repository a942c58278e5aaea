# Cache::FastMmap, with its own methods on the hot path.
use v5.36;
use Cache::FastMmap;
use File::Basename qw(dirname);
use lib dirname(__FILE__);

use FastMmapPages qw(num_pages);

use constant PAGE_SIZE => 65_536;

# The setting `serializer` is "by value" (byte strings unchanged, other values through Storable) or
# "default"; `num_pages` and `page_size` are those of the original, if a form has them.
sub (%of) {
    my ($settings, $bytes_max) = @of{qw(settings bytes_max)};
    my $page_size = $settings->{page_size} // PAGE_SIZE;
    my $num_pages = $settings->{num_pages}
        // ($bytes_max ? num_pages($bytes_max, $page_size) : undef);
    my $raw       = $settings->{serializer} eq 'by value' && $of{value} eq 'binary';
    my $cache     = Cache::FastMmap->new(
        share_file     => "$of{folder}/cache.fastmmap",
        unlink_on_exit => 0,
        page_size      => $page_size,
        num_pages      => $num_pages,
        $raw ? (serializer => '') : (),
        $settings->{ttl_seconds} ? (expire_time => $settings->{ttl_seconds}) : (),
    );
    return {
        object => $cache,
        get    => $cache->can('get'),
        set    => $cache->can('set'),
        delete => $cache->can('remove'),
        close  => sub { },
    };
}
