# A Perl hash, with one function for each verb.
use v5.36;

sub (%of) {
    return {
        object => {},
        get    => sub { $_[0]{$_[1]} },
        set    => sub { $_[0]{$_[1]} = $_[2]; 1 },
        delete => sub { defined delete $_[0]{$_[1]} },
        close  => sub { },
    };
}
