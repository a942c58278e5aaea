# Checks answers against everything that the recorded streams allow.
#
# Owns the rules of METHODOLOGY.md: which value is wrong, which is stale, which miss is right. Must
# not run while a clock does, nor know which contestant answered.
#
# An answer is wrong unless it is, byte for byte, a value that some stream stores under this very
# key. It is wrong as well when this worker is yet to store it, when a later phase is, or when this
# worker was refused its set. It is stale when it was certainly overwritten or deleted before the
# get began. All workers end a phase before any begins the next, and the order of one worker's own
# operations is known; so stale is a value
# - of a phase before the one in which this worker last wrote or deleted the key, or of whose values
#   it has seen one;
# - of this worker, older than its own last set or delete of the key;
# - of another worker, older than one of the same worker that was seen before.
# With one worker that leaves exactly the value stored last. A miss is never a fault here, as a
# cache may evict. It is counted. It is also counted as right when nothing can be there: with one
# worker, unless that worker last set the key, refused or not; with several, when no stream of this
# phase or an earlier one stores the key.
package Lab::Verifier;
use v5.36;
no warnings 'experimental::for_list';

use Lab::Workload qw(SET DELETE);

use constant ACTIONS => qw(get set delete);

# `$workload` has all streams. The store is empty.
sub new ($class, $workload) {
    return bless {
        workload => $workload,
        # For each key what is known of it, as words of 32 bits: the last phase in which it was
        # certainly written; then, for each stream of that phase, one more than the position of its
        # last operation that certainly came before the next get, or 0.
        known => [],
        # A bit for each key, set when this worker's last set or delete of it was a set.
        wanted => '',
        # For each phase a bit for each own set that was refused.
        refused => [],
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

# Check `$answers` to this worker's operations from `$position` of `$phase` on. Faults go to
# `$verdict`, counts to `$tallies`.
sub check ($self, $phase, $position, $answers, $verdict, $tallies) {
    my $workload = $self->{workload};
    my $own      = $workload->own($phase);
    my $index    = 0;
    for my ($verb, $key, $size) ($workload->operations($phase, $position, scalar @$answers)) {
        my $answer = $answers->[$index++];
        my $tally  = $tallies->[$verb];
        $tally->{count}++;
        if ($verb == SET) {
            vec($self->{wanted}, $key, 1) = 1;
            if (defined $answer && !$answer) {
                $tally->{miss}++;
                vec($self->{refused}[$phase], $position, 1) = 1;
            }
            else {
                $self->_see($key, $phase, $own, $position);
            }
        }
        elsif ($verb == DELETE) {
            vec($self->{wanted}, $key, 1) = 0;
            # A false answer may be a refusal: then the old value is still the right one.
            if   ($answer) { $self->_see($key, $phase, $own, $position) }
            else           { $tally->{miss}++ }
        }
        elsif (!defined $answer) {
            $tally->{miss}++;
            $tally->{absent}++ if $self->_is_absent($phase, $key);
        }
        else {
            $tally->{wrong} += $self->_is_wrong($phase, $position, $key, $answer, $verdict);
        }
        $position++;
    }
    return;
}

# Note that the operation at `$position` of a stream came before whatever this worker does next.
sub _see ($self, $key, $phase, $stream, $position) {
    my $known = \$self->{known}[$key];
    $$known = pack 'N', $phase if !defined $$known || vec($$known, 0, 32) < $phase;
    vec($$known, 1 + $stream, 32) = $position + 1;
    return;
}

sub _is_absent ($self, $phase, $key) {
    my $workload = $self->{workload};
    # What the others have stored by now is not known, only what they ever store.
    return !$workload->is_stored_by($phase, $key) if $workload->is_shared;
    return !vec $self->{wanted}, $key, 1;
}

# Return 1 when the answer to the own get at `$now` is wrong, 0 when it is not. A stale one goes to
# the verdict as well, and is not wrong.
sub _is_wrong ($self, $phase, $now, $key, $answer, $verdict) {
    my $workload = $self->{workload};
    my @stored   = $workload->stored($key, $answer);
    if (!@stored) {
        $verdict->add(wrong => sub { $self->_got($key, $self->_whose($answer)) });
        return 1;
    }
    $verdict->add_weak if $workload->derived->is_weak($stored[3]);
    my ($is_possible, @admissible);
    for my ($of_phase, $stream, $position, $size) (@stored) {
        next if !$self->_is_possible($phase, $now, $of_phase, $stream, $position);
        $is_possible = 1;
        push @admissible, $of_phase, $stream, $position
            if !$self->_is_stale($key, $of_phase, $stream, $position);
    }
    if (@admissible) {
        # Of several sets of the same few bytes it is not known which was seen.
        $self->_see($key, @admissible) if @admissible == 3;
        return 0;
    }
    if ($is_possible) {
        $verdict->add(stale => sub {
            return $self->_got($key, 'a value that was overwritten or deleted before');
        });
        return 0;
    }
    $verdict->add(wrong => sub {
        return $self->_got($key, 'a value whose set was refused, or has yet to come');
    });
    return 1;
}

sub _is_possible ($self, $phase, $now, $of_phase, $stream, $position) {
    return '' if $of_phase > $phase;
    return 1  if $stream != $self->{workload}->own($of_phase);
    return '' if $of_phase == $phase && $position > $now;
    return !vec $self->{refused}[$of_phase] // '', $position, 1;
}

sub _is_stale ($self, $key, $of_phase, $stream, $position) {
    my $known     = $self->{known}[$key] // return '';
    my $last_phase = vec $known, 0, 32;
    return $of_phase < $last_phase if $of_phase != $last_phase;
    return $position + 1 < vec $known, 1 + $stream, 32;
}

sub _got ($self, $key, $what) {
    return 'get("' . $self->{workload}->key($key) . "\") answered $what";
}

sub _whose ($self, $answer) {
    my $workload = $self->{workload};
    my $owner    = $workload->key_of($answer);
    return $workload->derived->describe($answer) . ' that '
        . (defined $owner ? "belong to the key \"$owner\"" : 'nobody stored');
}

1;
