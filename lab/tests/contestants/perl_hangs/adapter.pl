# The two-hundredth get starts a child and hangs.
use v5.36;
use Lab::Adapter qw(load_adapter);

my $honest = load_adapter(__FILE__ =~ s{perl_hangs}{perl_honest}r);

sub (%of) {
    my $store = $honest->(%of);
    my $gets  = 0;
    return {
        %$store,
        get => sub ($folder, $key) {
            if (++$gets == 200) {
                my $child = fork // die "could not fork: $!\n";
                exec 'sleep', '3600' if !$child;
                sleep 3600 while 1;
            }
            return $store->{get}->($folder, $key);
        },
    };
}
