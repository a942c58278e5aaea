# CHI's memory driver, with the suite's limit or none.
use v5.36;
use CHI;
use CHI::Driver::Memory;

sub (%of) {
    my $is_limited = $of{settings}{limit} eq 'max_size' && $of{bytes_max};
    my $cache      = CHI->new(
        driver       => 'Memory',
        global       => 0,
        namespace    => 'lab',
        on_get_error => 'die',
        on_set_error => 'die',
        $is_limited ? (max_size => $of{bytes_max}) : (),
    );
    return {
        object => $cache,
        get    => $cache->can('get'),
        # CHI returns the value, which may be false.
        set => sub { $_[0]->set($_[1], $_[2]); 1 },
        # `remove` does not tell whether the key existed.
        delete => sub {
            my $found = $_[0]->is_valid($_[1]);
            $_[0]->remove($_[1]) if $found;
            $found;
        },
        close => sub { },
    };
}
