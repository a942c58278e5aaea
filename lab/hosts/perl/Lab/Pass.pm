# One pass of one worker: warmed up and prepared, then run stretch by stretch.
#
# Owns the order of these steps, and the end when the time is over. Must not know how an operation
# is timed or an answer is judged.
package Lab::Pass;
use v5.36;
no warnings 'experimental::for_list';
use Fcntl qw(O_CREAT O_EXCL O_WRONLY);
use List::Util qw(min);

use Lab::Clock    qw(nanoseconds sleep_until);
use Lab::Loop     qw(plain_loop latency_loop obey);
use Lab::Verdict  ();
use Lab::Verifier ();

# Warm up the pass that `$request` (the verb "prepare") describes on the open store, and prepare its
# first stretch. Dies for an empty block or stretch, and for batches.
sub new ($class, $store, $workload, $verifier, $request) {
    die "a block and a stretch must have at least one operation\n"
        if $request->{block} < 1 || $request->{stretch} < 1;
    die "this host can only request one key at a time\n" if $request->{batch} != 1;
    my $self = bless {
        %$request{qw(phase measure block stretch seconds_max)},
        workload => $workload,
        verifier => $verifier,
        verdict  => Lab::Verdict->new,
        total    => $workload->operation_count($request->{phase}),
        done     => 0,
        loop     => plain_loop($store),
        # The clock readings of the latency loop in a stretch.
        readings => [],
    }, $class;
    my $is_over = $self->_warm_up(min($request->{warmup}, $self->{total}));
    $self->{loop}  = latency_loop($store, $self->{readings}) if $self->{measure} eq 'latency';
    $self->{ready} = $is_over ? [] : $self->_blocks($self->{stretch});
    return $self;
}

# Run the pass as `$request` (the verb "run") asks, or as much of it as the time allows, and check
# every answer. Return the reply. Dies if the file for the durations exists.
sub run ($self, $request) {
    my $tallies = Lab::Verifier->tallies;
    my ($started_ns, $ended_ns, $elapsed_ns, $cpu_ns) = (0, 0, 0, 0);
    my ($began, @blocks_ns);
    my $durations = '';
    sleep_until($request->{start_ns});
    while ($self->{ready}->@*) {
        my ($answers, $readings, $cpu) = obey(@$self{qw(ready loop)}, $began, $self->{seconds_max});
        $began //= $readings->[0];
        my $is_over = $readings->[-1] - $began >= $self->{seconds_max};
        my @readings_ns = map { nanoseconds($_) } @$readings;
        $started_ns ||= $readings_ns[0];
        $ended_ns = $readings_ns[-1];
        $elapsed_ns += $ended_ns - $readings_ns[0];
        $cpu_ns     += nanoseconds($cpu);
        for my $index (1 .. $#readings_ns) {
            my $is_full = $self->{ready}[$index - 1]->@* == 3 * $self->{block};
            push @blocks_ns, $readings_ns[$index] - $readings_ns[$index - 1] if $is_full;
        }
        $durations .= _durations($self->{readings});
        # Free this stretch before the next one allocates memory. The store may keep values.
        $self->{ready} = [];
        $self->_check($answers, $tallies);
        undef $answers;
        $self->{ready} = $self->_blocks($self->{stretch}) if !$is_over;
    }
    _write($request->{durations}, $durations) if $request->{durations} ne '';
    my $is_timed = $self->{measure} ne 'untimed';
    return {
        event      => 'ran',
        done       => $self->{done},
        started_ns => $is_timed ? $started_ns : 0,
        ended_ns   => $is_timed ? $ended_ns : 0,
        elapsed_ns => $is_timed ? $elapsed_ns : 0,
        cpu_ns     => $is_timed ? $cpu_ns : 0,
        blocks_ns  => $self->{measure} eq 'throughput' ? \@blocks_ns : [],
        actions    => Lab::Verifier->actions($tallies),
        verdict    => $self->{verdict}->message,
    };
}

# Run and check the first `$count` operations, untimed and uncounted. Return whether the time is
# over.
sub _warm_up ($self, $count) {
    my $began;
    while ($self->{done} < $count) {
        my $block = $self->_blocks(min($self->{block}, $count - $self->{done}));
        my ($answers, $readings) = obey($block, $self->{loop}, $began, $self->{seconds_max});
        $began //= $readings->[0];
        undef $block;
        $self->_check($answers, Lab::Verifier->tallies);
        return 1 if $readings->[-1] - $began >= $self->{seconds_max};
    }
    return '';
}

# Return the blocks of the next `$count` operations, or of all that remain.
sub _blocks ($self, $count) {
    my $end = min($self->{done} + $count, $self->{total});
    my @blocks;
    for (my $start = $self->{done}; $start < $end; $start += $self->{block}) {
        push @blocks,
            $self->{workload}->block($self->{phase}, $start, min($self->{block}, $end - $start));
    }
    return \@blocks;
}

sub _check ($self, $answers, $tallies) {
    $self->{verifier}->check(@$self{qw(phase done)}, $answers, $self->{verdict}, $tallies);
    $self->{done} += @$answers;
    return;
}

# Return the durations between the pairs of readings in the protocol's format; clear the readings.
sub _durations ($readings) {
    my @durations_ns;
    for my ($before, $after) (@$readings) {
        push @durations_ns, nanoseconds($after) - nanoseconds($before);
    }
    @$readings = ();
    return pack 'Q<*', @durations_ns;
}

sub _write ($path, $durations) {
    sysopen my $file, $path, O_CREAT | O_EXCL | O_WRONLY or die "could not create $path: $!\n";
    binmode $file;
    print {$file} $durations or die "could not write $path: $!\n";
    close $file or die "could not write $path: $!\n";
    return;
}

1;
