# A key whose characters add up to a multiple of ten is silently not stored.
use v5.36;
use Lab::Adapter qw(load_adapter);
use List::Util qw(sum);

my $honest = load_adapter(__FILE__ =~ s{perl_drops_writes}{perl_honest}r);

sub (%of) {
    my $store = $honest->(%of);
    return {
        %$store,
        set => sub ($folder, $key, $value) {
            return 1 if sum(unpack 'C*', $key) % 10 == 0;
            return $store->{set}->($folder, $key, $value);
        },
    };
}
