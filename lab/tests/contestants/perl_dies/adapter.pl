# The process is killed in its two-hundredth get.
use v5.36;
use Lab::Adapter qw(load_adapter);

my $honest = load_adapter(__FILE__ =~ s{perl_dies}{perl_honest}r);

sub (%of) {
    my $store = $honest->(%of);
    my $gets  = 0;
    return {
        %$store,
        get => sub ($folder, $key) {
            kill KILL => $$ if ++$gets == 200;
            return $store->{get}->($folder, $key);
        },
    };
}
