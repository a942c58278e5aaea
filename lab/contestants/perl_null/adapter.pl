# Verbs that do nothing: they measure the host's loop, its clock and a call.
use v5.36;

my $nothing = sub { undef };

sub (%of) {
    return {object => undef, map { $_ => $nothing } qw(get set delete close clear)};
}
