# Gives the answers of a script and keeps the values of sets; see `Hosts.scripted`.
use v5.36;
use JSON::PP ();

sub (%of) {
    open my $script, '<:raw', $of{settings}{script} or die "could not read the script: $!\n";
    my $says = sub {
        chomp(my $line = readline $script);
        select undef, undef, undef, 0.2 if $line eq 'slow';
        die "no value today\n"          if $line eq 'raise';
        return pack 'H*', $line         if $line =~ s/\A=//;
        return {yes => 1, no => ''}->{$line};
    };
    return {
        object => $of{folder},
        get    => $says,
        set    => sub ($folder, $key, $value) {
            open my $file, '>:raw', "$folder/$key" or die "could not keep $key: $!\n";
            print {$file} ref $value ? JSON::PP->new->encode($value) : $value;
            return $says->();
        },
        delete => $says,
        close  => sub ($folder) { },
    };
}
