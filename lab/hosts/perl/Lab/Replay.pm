# The replay of a trace: look up, store on a miss, count the hits.
#
# Owns that order and the check of hits. Must not time anything: the result is the hit ratio. Its
# own memory has its full size before the first request, so that only the store grows.
package Lab::Replay;
use v5.36;

use Lab::Verdict ();

use constant NOWHERE => -1;

# Replay a phase on a store that was opened empty.
sub new ($class, $workload, $values, $phase) {
    # For each key the position of the request that stored it last.
    my @stored = (NOWHERE) x $workload->key_count;
    return bless {
        workload => $workload, values => $values, phase => $phase, stored => \@stored,
    }, $class;
}

# Replay the requests from `$start` up to `$stop` and return the reply. Only this process writes, so
# a hit must return the value stored last.
sub run ($self, $store, $start, $stop) {
    my ($object, $get, $set) = @$store{qw(object get set)};
    my ($workload, $values, $phase, $stored) = @$self{qw(workload values phase stored)};
    my $verdict = Lab::Verdict->new;
    my ($hits, $refused) = (0, 0);
    for my $position ($start .. $stop - 1) {
        # One by one: a list would make the host's own memory grow.
        my (undef, $key) = $workload->operations($phase, $position, 1);
        my $text   = $workload->key($key);
        my $answer = $get->($object, $text);
        if (defined $answer) {
            $hits++;
            my $last     = $stored->[$key];
            my $is_right = $last != NOWHERE && $values->same($self->_value($last), $answer);
            $verdict->add(wrong => sub {
                return "get(\"$text\") did not return the value stored last";
            }) if !$is_right;
        }
        else {
            my $accepted = $set->($object, $text, $self->_value($position));
            if (defined $accepted && !$accepted) {
                $refused++;
            }
            else {
                $stored->[$key] = $position;
            }
        }
    }
    return {
        event => 'replayed', hits => $hits, refused => $refused, verdict => $verdict->message,
    };
}

# The value that the request at `$position` stores.
sub _value ($self, $position) {
    my ($workload, $phase) = @$self{qw(workload phase)};
    my (undef, $key, $size) = $workload->operations($phase, $position, 1);
    return $self->{values}->derive($key, $workload->sequence($phase, $position), $size);
}

1;
