# A Perl hash whose values are frozen when stored and thawed when returned.
use v5.36;
use Storable qw(freeze thaw);

sub (%of) {
    return {
        object => {},
        get    => sub { my $frozen = $_[0]{$_[1]}; defined $frozen ? thaw($frozen) : undef },
        set    => sub { $_[0]{$_[1]} = freeze($_[2]); 1 },
        delete => sub { defined delete $_[0]{$_[1]} },
        close  => sub { },
    };
}
