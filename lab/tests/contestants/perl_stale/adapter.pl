# Every tenth overwrite is acknowledged but not done, so the old value is kept.
use v5.36;
use Lab::Adapter qw(load_adapter);

my $honest = load_adapter(__FILE__ =~ s{perl_stale}{perl_honest}r);

sub (%of) {
    my $store      = $honest->(%of);
    my $overwrites = 0;
    return {
        %$store,
        set => sub ($folder, $key, $value) {
            return 1 if defined $store->{get}->($folder, $key) && ++$overwrites % 10 == 0;
            return $store->{set}->($folder, $key, $value);
        },
    };
}
