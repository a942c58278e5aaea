# The result of checking the answers of one request.
#
# Owns the four counts and the examples. Must not know the rules.
package Lab::Verdict;
use v5.36;

use constant EXAMPLES_MAX => 5;

# An empty verdict.
sub new ($class) {
    return bless {wrong => 0, stale => 0, lost => 0, weak => 0, examples => []}, $class;
}

# Count one answer as "wrong", "stale" or "lost". `$tell` returns a sentence that describes it, and
# is only called for the first few.
sub add ($self, $fault, $tell) {
    $self->{$fault}++;
    push $self->{examples}->@*, $tell->() if $self->{examples}->@* < EXAMPLES_MAX;
    return;
}

# Count one right answer that is so short that it could be right by chance.
sub add_weak ($self) {
    $self->{weak}++;
    return;
}

# The verdict in the protocol's format.
sub message ($self) {
    return {%$self};
}

1;
