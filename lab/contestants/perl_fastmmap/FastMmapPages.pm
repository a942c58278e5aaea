# The number of pages of Cache::FastMmap that fit into a limit.
#
# Owns that computation, which CHI's driver over the same module needs too.
package FastMmapPages;
use v5.36;
use Exporter 'import';

our @EXPORT_OK = qw(num_pages);

# Return the largest prime number of pages of `$page_size` bytes that fit into `$bytes_max`. The
# module wants a prime, so that keys spread evenly. Dies if two pages do not fit.
sub num_pages ($bytes_max, $page_size) {
    my $pages = int($bytes_max / $page_size);
    $pages-- while $pages > 1 && grep { $pages % $_ == 0 } 2 .. int sqrt $pages;
    return $pages if $pages > 1;
    die "two pages of $page_size bytes do not fit into $bytes_max bytes\n";
}

1;
