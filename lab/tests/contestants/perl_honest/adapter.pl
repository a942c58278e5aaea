# A file for each entry, without any limit: what is stored is there. It is also a chatty one.
use v5.36;
use Storable qw(retrieve store);

sub (%of) {
    say 'an adapter may print: this must not disturb the protocol';
    return {
        object => $of{folder},
        get    => sub ($folder, $key) {
            my $path = "$folder/$key";
            return -e $path ? retrieve($path)->[0] : undef;
        },
        set    => sub ($folder, $key, $value) { store([$value], "$folder/$key"); 1 },
        delete => sub ($folder, $key) { unlink "$folder/$key" },
        close  => sub ($folder) { },
    };
}
