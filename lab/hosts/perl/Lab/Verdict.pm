# What checking the answers of one request found.
#
# Owns the four counts and the few sentences of examples. Must not know the rules.
package Lab::Verdict;
use v5.36;

use constant EXAMPLES_MAX => 5;

# Nothing found yet.
sub new ($class) {
    return bless {wrong => 0, stale => 0, lost => 0, weak => 0, examples => []}, $class;
}

# Count one answer as "wrong", "stale" or "lost". `$tell` returns a sentence that says what it was;
# it is called for the first few alone.
sub add ($self, $fault, $tell) {
    $self->{$fault}++;
    push $self->{examples}->@*, $tell->() if $self->{examples}->@* < EXAMPLES_MAX;
    return;
}

# Count one right answer that is too short to prove much.
sub add_weak ($self) {
    $self->{weak}++;
    return;
}

# The verdict as the protocol has it.
sub message ($self) {
    return {%$self};
}

1;
