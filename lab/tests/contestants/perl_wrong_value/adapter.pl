# Every fiftieth hit has its last bit flipped.
use v5.36;
use Lab::Adapter qw(load_adapter);

my $honest = load_adapter(__FILE__ =~ s{perl_wrong_value}{perl_honest}r);

sub (%of) {
    my $store = $honest->(%of);
    my $hits  = 0;
    my $flip  = sub ($text) { substr($text, 0, -1) . chr(ord(substr $text, -1) ^ 1) };
    return {
        %$store,
        get => sub ($folder, $key) {
            my $value = $store->{get}->($folder, $key);
            return $value if !defined $value || ++$hits % 50;
            return $flip->($value) if !ref $value;
            my ($name) = keys %$value;
            return {%$value, $name => $flip->($value->{$name})};
        },
    };
}
