# Checks answers against everything that the recorded streams allow.
#
# Owns the rules of METHODOLOGY.md: which value is wrong, which is stale, which miss is right. Must
# not run while a clock runs, nor know which contestant answered.
#
# An answer is wrong unless it is, byte for byte, a value that some stream stores under this key. It
# is also wrong if this worker has yet to store it, if a later phase stores it, or if this worker's
# set of it was refused. It is stale if it was certainly overwritten or deleted before the get
# began. All workers end a phase before any begins the next, and the order of one worker's own
# operations is known. So these values are stale:
# - a value of an earlier phase than the last one in which the key is known to have been written:
#   this worker wrote or deleted it there, or saw a value of that phase;
# - a value of this worker, older than its own last set or delete of the key;
# - a value of another worker, older than one of the same worker that was seen before.
# With one worker, only the value stored last is right. A miss is never a fault here, because a
# cache may evict. It counts as right if nothing can be stored: with one worker, unless its last
# operation on the key was a set, refused or not; with several, if no stream of this phase or an
# earlier one stores the key.
package Lab::Verifier;
use v5.36;
no warnings 'experimental::for_list';

use Lab::Workload qw(SET DELETE);

use constant ACTIONS => qw(get set delete);

# `$workload` has all streams. The store is empty.
sub new ($class, $workload) {
    return bless {
        workload => $workload,
        # What is known of each key, as words of 32 bits: the last phase in which it was certainly
        # written; then, for each stream of that phase, one more than the position of its last
        # operation that certainly came before the next get, or 0.
        known => [],
        # A bit for each key: whether this worker's last set or delete of it was a set.
        wanted => '',
        # For each phase, a bit for each of this worker's refused sets.
        refused => [],
    }, $class;
}

# Counts of 0, one for each verb, in the order of their numbers.
sub tallies ($class) {
    return [map { {count => 0, miss => 0, absent => 0, wrong => 0} } ACTIONS];
}

# The tallies in the protocol's format.
sub actions ($class, $tallies) {
    my %actions;
    @actions{+ACTIONS} = @$tallies;
    return \%actions;
}

# Check `$answers` to this worker's operations, starting at `$position` of `$phase`. Faults go to
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
            # A false answer may be a refusal; the old value is then still right.
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

# Note that the operation at `$position` of a stream came before this worker's next operation.
sub _see ($self, $key, $phase, $stream, $position) {
    my $known = \$self->{known}[$key];
    $$known = pack 'N', $phase if !defined $$known || vec($$known, 0, 32) < $phase;
    vec($$known, 1 + $stream, 32) = $position + 1;
    return;
}

sub _is_absent ($self, $phase, $key) {
    my $workload = $self->{workload};
    # It is unknown what the others have stored so far, only what they ever store.
    return !$workload->is_stored_by($phase, $key) if $workload->is_shared;
    return !vec $self->{wanted}, $key, 1;
}

# Return 1 if the answer to this worker's get at `$now` is wrong, else 0. Adds a stale answer to the
# verdict too; it is not wrong.
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
        # With several sets of the same few bytes, it is unknown which one was seen.
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
        return $self->_got($key, 'a value whose set was refused or comes later');
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
    return 'get("' . $self->{workload}->key($key) . "\") returned $what";
}

sub _whose ($self, $answer) {
    my $workload = $self->{workload};
    my $owner    = $workload->key_of($answer);
    return $workload->derived->describe($answer) . ' that '
        . (defined $owner ? "belong to the key \"$owner\"" : 'were never stored');
}

1;
