# The clocks, and what reading them costs.
#
# Owns which clocks are read and in which unit. Must not know what is timed.
#
# A reading is a floating-point number of seconds, because that is what Time::HiRes has; it is made
# whole nanoseconds when the difference of two has been taken. A double still tells apart 2 ns
# after three months of uptime.
package Lab::Clock;
use v5.36;
use Exporter 'import';
use Time::HiRes ();

our @EXPORT_OK = qw(MONOTONIC CPU nanoseconds timer_ns);

# Constants of ours, since those of Time::HiRes are looked up by name at each use.
use constant MONOTONIC => Time::HiRes::CLOCK_MONOTONIC();
use constant CPU       => Time::HiRes::CLOCK_PROCESS_CPUTIME_ID();

use constant TIMER_PAIRS => 1_000;

# Return `$seconds` as a whole number of nanoseconds.
sub nanoseconds ($seconds) {
    return int($seconds * 1e9 + 0.5);
}

# Return the differences, in nanoseconds, of pairs of clock readings with nothing between them.
sub timer_ns () {
    my @differences;
    for (1 .. TIMER_PAIRS) {
        my $before = Time::HiRes::clock_gettime(MONOTONIC);
        my $after  = Time::HiRes::clock_gettime(MONOTONIC);
        push @differences, nanoseconds($after - $before);
    }
    return \@differences;
}

1;
