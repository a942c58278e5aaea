# Checks answers against all that this worker has done to each key.
#
# Owns the rules for a worker that is alone: which answer is wrong, which is stale, which miss is
# right. Must not run while a clock does, nor know which contestant answered.
#
# For each key it knows what a get must answer: the value stored last (PRESENT); nothing, since the
# key was never stored, or deleted (ABSENT); or either (IN_DOUBT), since a set was refused, which
# may have dropped the old value or not, or a delete of a value that should be there found nothing.
# Any other answer is stale when it is some earlier value of the key, or the deleted one, and wrong
# when it is not. A miss is never a fault here, as a cache may evict; it is counted, and counted as
# right unless the last word on the key was a set, refused or not.
package Lab::Verifier;
use v5.36;

use Lab::Workload qw(SET DELETE);

use constant {ABSENT => 0, PRESENT => 1, IN_DOUBT => 2};

use constant ACTIONS => qw(get set delete);

use constant EARLIER => 'Q<L<';

# `$workload` has the texts of the keys and `$values` the values. The store is empty.
sub new ($class, $workload, $values) {
    my $keys = $workload->key_count;
    return bless {
        workload => $workload,
        values   => $values,
        state    => [(ABSENT) x $keys],
        wanted   => [(0) x $keys],
        sequence => [(0) x $keys],
        size     => [(0) x $keys],
        # For each key the sequences and sizes of all it ever had, packed.
        history  => [('') x $keys],
    }, $class;
}

# Counts of nothing, one for each verb, in the order of their numbers.
sub tallies ($class) {
    return [map { {count => 0, miss => 0, absent => 0, wrong => 0} } ACTIONS];
}

# The tallies as the protocol has them.
sub actions ($class, $tallies) {
    my %actions;
    @actions{+ACTIONS} = @$tallies;
    return \%actions;
}

# Check `$answers` to `$operations`, a flat list of verb, key number and size, the first of which
# has `$sequence`. Faults go to `$verdict`, counts to `$tallies`.
sub check ($self, $operations, $sequence, $answers, $verdict, $tallies) {
    my ($state, $wanted) = @$self{qw(state wanted)};
    my $index = 0;
    no warnings 'experimental::for_list';
    for my ($verb, $key, $size) (@$operations) {
        my $answer = $answers->[$index];
        my $tally  = $tallies->[$verb];
        $tally->{count}++;
        if ($verb == SET) {
            $wanted->[$key] = 1;
            if (defined $answer && !$answer) {
                $tally->{miss}++;
                $state->[$key] = IN_DOUBT if $state->[$key] == PRESENT;
            }
            else {
                $self->_stored($key, $sequence + $index, $size);
            }
        }
        elsif ($verb == DELETE) {
            $wanted->[$key] = 0;
            if ($answer) {
                $state->[$key] = ABSENT;
            }
            else {
                $tally->{miss}++;
                $state->[$key] = IN_DOUBT if $state->[$key] == PRESENT;
            }
        }
        elsif (!defined $answer) {
            $tally->{miss}++;
            $tally->{absent}++ if !$wanted->[$key];
        }
        else {
            $tally->{wrong} += $self->_check_value($key, $answer, $verdict);
        }
        $index++;
    }
    return;
}

sub _stored ($self, $key, $sequence, $size) {
    $self->{state}[$key]    = PRESENT;
    $self->{sequence}[$key] = $sequence;
    $self->{size}[$key]     = $size;
    $self->{history}[$key] .= pack EARLIER, $sequence, $size;
    return;
}

# Return 1 when the answer is wrong, 0 when it is not.
sub _check_value ($self, $key, $answer, $verdict) {
    my ($values, $workload) = @$self{qw(values workload)};
    if ($self->{state}[$key] != ABSENT && $self->_is_last($key, $answer)) {
        $verdict->add_weak if $values->is_weak($self->{size}[$key]);
        return 0;
    }
    my $get = 'get("' . $workload->key($key) . '")';
    if ($self->_was($key, $answer)) {
        $verdict->add(stale => sub {
            return "$get answered a value that was overwritten or deleted before";
        });
        return 0;
    }
    $verdict->add(wrong => sub {
        return "$get answered " . $values->describe($answer) . ' ' . $self->_whose($answer);
    });
    return 1;
}

sub _is_last ($self, $key, $answer) {
    my $value = $self->{values}->derive($key, $self->{sequence}[$key], $self->{size}[$key]);
    return $self->{values}->same($value, $answer);
}

sub _was ($self, $key, $answer) {
    my @earlier = unpack '(' . EARLIER . ')*', $self->{history}[$key];
    no warnings 'experimental::for_list';
    for my ($sequence, $size) (@earlier) {
        my $value = $self->{values}->derive($key, $sequence, $size);
        return 1 if $self->{values}->same($value, $answer);
    }
    return '';
}

sub _whose ($self, $answer) {
    for my $key (0 .. $#{$self->{state}}) {
        next if $self->{state}[$key] == ABSENT || !$self->_is_last($key, $answer);
        return 'that belong to the key "' . $self->{workload}->key($key) . '"';
    }
    return 'that were never stored under it';
}

1;
