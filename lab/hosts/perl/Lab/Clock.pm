# The clocks, and the cost of reading them.
#
# Owns the choice of clocks and units. Must not know what is timed.
#
# Time::HiRes returns a floating-point number of seconds. Readings are converted to whole
# nanoseconds before they are subtracted, so that differences add up exactly. After three months of
# uptime, a double still resolves 2 ns.
package Lab::Clock;
use v5.36;
use Exporter 'import';
use Time::HiRes ();

our @EXPORT_OK = qw(MONOTONIC CPU nanoseconds sleep_until timer_ns);

# Our own constants: those of Time::HiRes are looked up by name at each use.
use constant MONOTONIC => Time::HiRes::CLOCK_MONOTONIC();
use constant CPU       => Time::HiRes::CLOCK_PROCESS_CPUTIME_ID();

use constant TIMER_PAIRS => 1_000;

# Return `$seconds` as a whole number of nanoseconds.
sub nanoseconds ($seconds) {
    return int($seconds * 1e9 + 0.5);
}

# Wait until the monotonic clock reads `$start_ns`.
sub sleep_until ($start_ns) {
    my $left_ns;
    Time::HiRes::sleep($left_ns / 1e9)
        while ($left_ns = $start_ns - nanoseconds(Time::HiRes::clock_gettime(MONOTONIC))) > 0;
    return;
}

# Return the differences, in nanoseconds, of pairs of clock readings with nothing between them.
sub timer_ns () {
    my @differences;
    for (1 .. TIMER_PAIRS) {
        my $before = Time::HiRes::clock_gettime(MONOTONIC);
        my $after  = Time::HiRes::clock_gettime(MONOTONIC);
        push @differences, nanoseconds($after) - nanoseconds($before);
    }
    return \@differences;
}

1;
