# The probe: does the store keep what fits, give the latest, and forget what was deleted?
#
# Owns the probe keys, which are no part of the measured workload. Must not run while anything is
# timed. The store is new and far from full, so what is missing was lost.
package Lab::Probe;
use v5.36;
use Exporter 'import';

use Lab::Verdict ();

our @EXPORT_OK = qw(write_probe read_probe);

use constant {
    KEYS_PER_WORKER => 64,
    BYTES           => 160,
    FIELDS          => 5,
    ROUNDS          => 3,
    # No key of a stream has so large a number.
    FIRST_KEY => 2**32,
};

my %SENTENCES = (
    lost  => 'was stored, the store was not full, and it is gone',
    stale => 'answered a value that was overwritten or deleted',
    wrong => 'answered what was never stored under it',
);

# Store each of this worker's keys three times over, and delete every fourth. `$refused_keys` is a
# reference to a hash, which gets the names of the keys of which a set was refused.
sub write_probe ($store, $values, $worker, $refused_keys) {
    my ($object, $set, $delete) = @$store{qw(object set delete)};
    my $refused = 0;
    for my $round (0 .. ROUNDS - 1) {
        for my $number (0 .. KEYS_PER_WORKER - 1) {
            my $key    = _key($worker, $number);
            my $answer = $set->($object, $key, _value($values, $worker, $number, $round));
            next if !defined $answer || $answer;
            $refused++;
            $refused_keys->{$key} = 1;
        }
    }
    for my $number (grep { _is_deleted($_) } 0 .. KEYS_PER_WORKER - 1) {
        # Called as the contract says: in scalar context.
        my $found = $delete->($object, _key($worker, $number));
    }
    return _probed(KEYS_PER_WORKER, $refused, Lab::Verdict->new);
}

# Read the keys of `$workers` and compare each with what was stored in the last round. A key in
# `$refused_keys` owes nothing but to be no other's value.
sub read_probe ($store, $values, $workers, $refused_keys) {
    my ($object, $get) = @$store{qw(object get)};
    my $verdict = Lab::Verdict->new;
    for my $worker (@$workers) {
        for my $number (0 .. KEYS_PER_WORKER - 1) {
            my $key    = _key($worker, $number);
            my $answer = $get->($object, $key);
            my @rounds = map { _value($values, $worker, $number, $_) } 0 .. ROUNDS - 1;
            my $fault  = _fault($values, $answer, \@rounds, _is_deleted($number)) // next;
            next if $refused_keys->{$key} && $fault ne 'wrong';
            my $what = $SENTENCES{$fault};
            $verdict->add($fault => sub { return "\"$key\" $what" });
        }
    }
    return _probed(KEYS_PER_WORKER * @$workers, 0, $verdict);
}

# Return what is wrong with `$answer`, undef when nothing is.
sub _fault ($values, $answer, $rounds, $is_deleted) {
    return $is_deleted ? undef : 'lost' if !defined $answer;
    return undef if !$is_deleted && $values->same($rounds->[-1], $answer);
    return 'stale' if grep { $values->same($_, $answer) } @$rounds;
    return 'wrong';
}

sub _key ($worker, $number) {
    return "probe-$worker-$number";
}

sub _value ($values, $worker, $number, $round) {
    my $key = FIRST_KEY + $worker * KEYS_PER_WORKER + $number;
    return $values->derive($key, $round, $values->{complex} ? FIELDS : BYTES);
}

sub _is_deleted ($number) {
    return $number % 4 == 3;
}

sub _probed ($keys, $refused, $verdict) {
    return {event => 'probed', keys => $keys, refused => $refused, verdict => $verdict->message};
}

1;
