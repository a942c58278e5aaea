# What a worker needs before the clock starts: the keys, and the operation streams of its phases.
#
# Owns the two file formats (PROTOCOL.md) and the numbering of sequences. Must not touch a store.
package Lab::Workload;
use v5.36;
no warnings 'experimental::for_list';
use Exporter 'import';

our @EXPORT_OK = qw(GET SET DELETE);

use constant {GET => 0, SET => 1, DELETE => 2};

use constant {
    MAGIC        => 'LABOPS01',
    RECORD_BYTES => 12,
    # Operations unpacked at once where all are walked, so that a long stream is never a long list.
    CHUNK => 4_096,
};

# Read the keys of the file `$keys` and, of each of `$phases`, the stream that `$worker` runs.
# Dies when a file cannot be read or is not what it should be.
sub new ($class, $keys, $phases, $worker) {
    my @keys = split /\n/, _content($keys);
    my @phases;
    for my $phase (@$phases) {
        my $streams = $phase->{streams};
        # A single stream is a preload, which whoever is asked runs.
        my $own = @$streams == 1 ? $streams->[0] : $streams->[$worker]
            // die "phase $phase->{name} has no stream for worker $worker\n";
        push @phases, {base => $own->{base}, records => _records($own->{path}, scalar @keys)};
    }
    return bless {keys => \@keys, phases => \@phases}, $class;
}

sub _content ($path) {
    open my $file, '<:raw', $path or die "could not read $path: $!\n";
    local $/ = undef;
    return readline($file) // '';
}

sub _records ($path, $keys) {
    my $content = _content($path);
    die "$path is not an operation stream; let the runner write it again\n"
        if substr($content, 0, length MAGIC) ne MAGIC
        || (length($content) - length MAGIC) % RECORD_BYTES;
    my $records = substr $content, length MAGIC;
    for (my $start = 0; $start < length $records; $start += CHUNK * RECORD_BYTES) {
        for my ($verb, $key) (unpack '(CxxxL<x4)*', substr $records, $start, CHUNK * RECORD_BYTES) {
            die "$path has an operation with verb $verb, which the protocol does not know\n"
                if $verb > DELETE;
            die "$path has an operation on key $key, and there are $keys keys\n" if $key >= $keys;
        }
    }
    return $records;
}

# The text of the key with this number.
sub key ($self, $number) {
    return $self->{keys}[$number];
}

# How many keys there are.
sub key_count ($self) {
    return scalar $self->{keys}->@*;
}

# How many operations the phase with this index has.
sub operation_count ($self, $phase) {
    return length($self->_phase($phase)->{records}) / RECORD_BYTES;
}

# The sequence of the phase's operation at `$position`.
sub sequence ($self, $phase, $position) {
    return $self->_phase($phase)->{base} + $position;
}

# Return verb, key number and size of `$count` operations of the phase from `$start` on, flat.
sub operations ($self, $phase, $start, $count) {
    return unpack "\@@{[$start * RECORD_BYTES]} (CxxxL<L<)$count", $self->_phase($phase)->{records};
}

sub _phase ($self, $index) {
    return $self->{phases}[$index] // die "there is no phase with index $index\n";
}

1;
