# One file per entry, without a limit: it keeps everything. It also prints to standard output.
use v5.36;
use Storable qw(fd_retrieve nstore);

sub (%of) {
    say 'an adapter may print: this must not disturb the protocol';
    return {
        object => $of{folder},
        get    => sub ($folder, $key) {
            open my $file, '<:raw', "$folder/$key" or return undef;
            return fd_retrieve($file)->[0];
        },
        # Other processes find the old or the new file, never a part of it.
        set => sub ($folder, $key, $value) {
            my $new = "$folder/.$key-$$";
            nstore([$value], $new);
            rename $new, "$folder/$key" or die "could not rename $new: $!\n";
        },
        delete => sub ($folder, $key) { unlink "$folder/$key" },
        close  => sub ($folder) { },
        clear  => sub ($folder) { unlink glob "$folder/*" },
    };
}
