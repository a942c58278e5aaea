# The timed loops, with nothing but operations between the clock readings.
#
# Owns how operations are timed. Must not know which contestant it drives.
#
# A block is a flat list of verb, key and value, walked three at a time: the cheapest of the loops
# that we tried. A get is the common case and tested first.
package Lab::Loop;
use v5.36;
no warnings 'experimental::for_list';
use Exporter 'import';
use Time::HiRes qw(clock_gettime);

use Lab::Clock    qw(MONOTONIC CPU);
use Lab::Workload qw(SET);

our @EXPORT_OK = qw(plain_loop latency_loop obey);

# Return a function that runs a block on the open store and adds its answers to a list.
sub plain_loop ($store) {
    my ($object, $get, $set, $delete) = @$store{qw(object get set delete)};
    return sub ($block, $answers) {
        for my ($verb, $key, $value) (@$block) {
            push @$answers, scalar(
                $verb
                ? $verb == SET
                    ? $set->($object, $key, $value)
                    : $delete->($object, $key)
                : $get->($object, $key)
            );
        }
        return;
    };
}

# Like `plain_loop`, and adds the clock readings before and after each operation to `$readings`.
sub latency_loop ($store, $readings) {
    my ($object, $get, $set, $delete) = @$store{qw(object get set delete)};
    return sub ($block, $answers) {
        my ($before, $after);
        for my ($verb, $key, $value) (@$block) {
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
            push @$answers,  $answer;
            push @$readings, $before, $after;
        }
        return;
    };
}

# Run a stretch, a reference to a list of blocks, with `$loop`. Stop after the block in which
# `$seconds_max` have passed since the reading `$began` or, if that is undef, since the first
# reading. Return references to the answers and to the clock readings, one more than the blocks, and
# the process's CPU time in seconds.
sub obey ($stretch, $loop, $began, $seconds_max) {
    my @answers;
    my $cpu_before = clock_gettime(CPU);
    my $now        = clock_gettime(MONOTONIC);
    my @readings   = ($now);
    $began //= $now;
    for my $block (@$stretch) {
        $loop->($block, \@answers);
        $now = clock_gettime(MONOTONIC);
        push @readings, $now;
        last if $now - $began >= $seconds_max;
    }
    return \@answers, \@readings, clock_gettime(CPU) - $cpu_before;
}

1;
