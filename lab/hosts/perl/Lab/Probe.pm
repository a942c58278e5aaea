# The probe: does the store keep what fits, return the latest value, and delete?
#
# Owns the probe keys, which are not part of the measured workload. Must not run while anything is
# timed. The store is new and far from full, so a missing key was lost.
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
    # Above all key numbers of streams.
    FIRST_KEY => 2**32,
};

my %SENTENCES = (
    lost  => 'was stored and is missing, though the store was not full',
    stale => 'returned a value that was overwritten or deleted',
    wrong => 'returned something that was never stored under it',
);

# Store each of this worker's keys three times, and delete every fourth key. The names of keys with
# a refused set are added to the hash `$refused_keys`.
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
        # The contract requires scalar context.
        my $found = $delete->($object, _key($worker, $number));
    }
    return _probed(KEYS_PER_WORKER, $refused, Lab::Verdict->new);
}

# Read the keys of `$workers` and compare each with the value of the last round. For a key in
# `$refused_keys`, only another key's value is a fault.
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

# Return the fault of `$answer`; undef if there is none.
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
