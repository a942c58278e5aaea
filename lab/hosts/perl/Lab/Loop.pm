# The timed loops, and nothing between the clock's two readings but the operations.
#
# Owns how operations are timed. Must not know which contestant it drives.
#
# Operations are a flat list of verb, key and value, walked three at a time: of the loops that were
# tried the one with the least cost of its own. A get is the common case and tested for first.
package Lab::Loop;
use v5.36;
no warnings 'experimental::for_list';
use Exporter 'import';
use Time::HiRes qw(clock_gettime);

use Lab::Clock    qw(MONOTONIC CPU);
use Lab::Workload qw(SET);

our @EXPORT_OK = qw(obey obey_each);

# Obey the operations on the open store. Return a reference to the answers, the seconds that passed
# and the seconds of CPU time that the process used.
sub obey ($store, $operations) {
    my ($object, $get, $set, $delete) = @$store{qw(object get set delete)};
    my @answers;
    my $cpu_before = clock_gettime(CPU);
    my $before     = clock_gettime(MONOTONIC);
    for my ($verb, $key, $value) (@$operations) {
        push @answers, scalar(
            $verb
            ? $verb == SET
                ? $set->($object, $key, $value)
                : $delete->($object, $key)
            : $get->($object, $key)
        );
    }
    my $after = clock_gettime(MONOTONIC);
    return \@answers, $after - $before, clock_gettime(CPU) - $cpu_before;
}

# As `obey`, with a pair of readings around each operation. The seconds are a reference to a list.
sub obey_each ($store, $operations) {
    my ($object, $get, $set, $delete) = @$store{qw(object get set delete)};
    my (@answers, @seconds, $before, $after);
    my $cpu_before = clock_gettime(CPU);
    for my ($verb, $key, $value) (@$operations) {
        my $answer;
        if (!$verb) {
            $before = clock_gettime(MONOTONIC);
            $answer = $get->($object, $key);
            $after  = clock_gettime(MONOTONIC);
        }
        elsif ($verb == SET) {
            $before = clock_gettime(MONOTONIC);
            $answer = $set->($object, $key, $value);
            $after  = clock_gettime(MONOTONIC);
        }
        else {
            $before = clock_gettime(MONOTONIC);
            $answer = $delete->($object, $key);
            $after  = clock_gettime(MONOTONIC);
        }
        push @answers, $answer;
        push @seconds, $after - $before;
    }
    return \@answers, \@seconds, clock_gettime(CPU) - $cpu_before;
}

1;
