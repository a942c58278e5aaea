# One pass over a phase: in blocks, each derived, obeyed under the clock, checked and dropped.
#
# Owns the order of those steps, the warm-up, and the end when the time is over. Must not know how
# an operation is timed or an answer judged.
package Lab::Pass;
use v5.36;
no warnings 'experimental::for_list';
use Exporter 'import';
use Fcntl qw(O_CREAT O_EXCL O_WRONLY);
use List::Util qw(min sum0);
use Time::HiRes qw(clock_gettime);

use Lab::Clock    qw(MONOTONIC nanoseconds);
use Lab::Loop     qw(obey obey_each);
use Lab::Verdict  ();
use Lab::Verifier ();
use Lab::Workload qw(SET);

our @EXPORT_OK = qw(run);

# Run the pass that `$request` (the verb "run") describes on the open store and return the reply.
sub run ($store, $workload, $values, $verifier, $request) {
    my ($phase, $block, $measure) = @$request{qw(phase block measure)};
    die "a block has at least one operation, not $block\n" if $block < 1;
    my $total     = $workload->operation_count($phase);
    my $warmup    = min($request->{warmup}, $total);
    my $verdict   = Lab::Verdict->new;
    my $tallies   = Lab::Verifier->tallies;
    my $durations = _create($request->{durations}, $measure);
    my ($done, $timed_ns, $cpu_ns, @blocks_ns) = (0, 0, 0);

    my $began = my $warm = clock_gettime(MONOTONIC);
    while ($done < $total) {
        my $is_warmup = $done < $warmup;
        my $count     = min($block, ($is_warmup ? $warmup : $total) - $done);
        my @known     = $workload->operations($phase, $done, $count);
        my $sequence  = $workload->sequence($phase, $done);
        my $prepared  = _prepare($workload, $values, \@known, $sequence);

        my $each = $measure eq 'latency' && !$is_warmup;
        my ($answers, $seconds, $cpu) =
            $each ? obey_each($store, $prepared) : obey($store, $prepared);

        # The store may keep the values; nothing else of the block outlives it.
        undef $prepared;
        $verifier->check(\@known, $sequence, $answers, $verdict,
            $is_warmup ? Lab::Verifier->tallies : $tallies);
        undef $answers;
        $done += $count;

        my $now = clock_gettime(MONOTONIC);
        if ($is_warmup) {
            $warm = $now;
        }
        elsif ($measure ne 'untimed') {
            my @each_ns  = map { nanoseconds($_) } $each ? @$seconds : $seconds;
            my $block_ns = sum0(@each_ns);
            $timed_ns += $block_ns;
            $cpu_ns   += nanoseconds($cpu);
            push @blocks_ns, $block_ns if !$each && $count == $block;
            _append($durations, \@each_ns) if $each;
        }
        last if $now - $began >= $request->{seconds_max};
    }
    my $wall = clock_gettime(MONOTONIC) - $warm;
    close $durations or die "could not write $request->{durations}: $!\n" if $durations;

    return {
        event     => 'ran',
        done      => $done,
        wall_ns   => $measure eq 'untimed' ? 0 : nanoseconds($wall),
        timed_ns  => $timed_ns,
        cpu_ns    => $cpu_ns,
        blocks_ns => \@blocks_ns,
        actions   => Lab::Verifier->actions($tallies),
        verdict   => $verdict->message,
    };
}

# Return verb, text of the key, and value for each of `$known`: a reference to a flat list.
sub _prepare ($workload, $values, $known, $sequence) {
    my @prepared;
    for my ($verb, $key, $size) (@$known) {
        push @prepared, $verb, $workload->key($key),
            $verb == SET ? $values->derive($key, $sequence, $size) : '';
        $sequence++;
    }
    return \@prepared;
}

sub _create ($path, $measure) {
    return undef if $measure ne 'latency';
    sysopen my $file, $path, O_CREAT | O_EXCL | O_WRONLY or die "could not create $path: $!\n";
    binmode $file;
    return $file;
}

sub _append ($file, $durations_ns) {
    print {$file} pack 'Q<*', @$durations_ns or die "could not write durations: $!\n";
    return;
}

1;
