# How many bytes a folder occupies.
#
# Owns that measure, which the runner takes too when the replay is over. Must not know whose folder
# it is.
package Lab::Disk;
use v5.36;
use Exporter 'import';

our @EXPORT_OK = qw(bytes_occupied);

use constant BLOCK_BYTES => 512;

# Return the bytes of all blocks allocated to the files below `$folder`. Files that vanish meanwhile
# count as nothing.
sub bytes_occupied ($folder) {
    my $total = 0;
    opendir my $entries, $folder or return 0;
    for my $name (grep { $_ ne '.' && $_ ne '..' } readdir $entries) {
        my @status = lstat "$folder/$name" or next;
        if    (-d _) { $total += bytes_occupied("$folder/$name") }
        elsif (-f _) { $total += $status[12] * BLOCK_BYTES }
    }
    return $total;
}

1;
