# The inputs of a worker: its own operations, and the values that may be answered.
#
# Owns the keys, the streams and the tables of marks (PROTOCOL.md has the file formats). Must not
# touch a store.
#
# Each key has a table of all values that any worker ever stores under it: a string of sorted
# records with the value's mark, phase, number of the stream in that phase, position there, and
# size. A hash would take nine times the memory.
package Lab::Workload;
use v5.36;
no warnings 'experimental::for_list';
use Exporter 'import';

our @EXPORT_OK = qw(GET SET DELETE);

use constant {GET => 0, SET => 1, DELETE => 2};

use constant {
    MAGIC           => 'LABOPS01',
    OPERATION_BYTES => 12,
    # Operations unpacked at once, to avoid long lists.
    CHUNK => 4_096,

    RECORD       => 'a4 S< S< L< L<',
    RECORD_BYTES => 16,
    MARK_BYTES   => 4,
};

# Read the keys and all streams that `$load` (the request of that verb) names. Dies if a file cannot
# be read or is malformed.
sub new ($class, $load, $values) {
    my $self = bless {
        values  => $values,
        workers => $load->{workers},
        keys    => [split /\n/, _content($load->{keys})],
        # For each phase: the number of the stream that this worker runs, its operations as in the
        # file, and the first sequence of each stream.
        own        => [],
        operations => [],
        bases      => [],
        # For each key: its table, and one more than the first phase that stores it, in 16 bits.
        tables       => [],
        stored_since => '',
    }, $class;
    for my $phase ($load->{phases}->@*) {
        my $streams = $phase->{streams};
        # A single stream is a preload, which any worker may be asked to run.
        my $own = @$streams == 1 ? 0 : $load->{worker};
        die "phase $phase->{name} has no stream for worker $own\n" if $own > $#$streams;
        push $self->{own}->@*,   $own;
        push $self->{bases}->@*, [map { $_->{base} } @$streams];
        for my $number (0 .. $#$streams) {
            my $operations = $self->_read($streams->[$number]{path}, $number);
            push $self->{operations}->@*, $operations if $number == $own;
        }
    }
    for my $table (grep { defined && length > RECORD_BYTES } $self->{tables}->@*) {
        $table = join '', sort unpack '(a' . RECORD_BYTES . ')*', $table;
    }
    return $self;
}

sub _content ($path) {
    open my $file, '<:raw', $path or die "could not read $path: $!\n";
    local $/ = undef;
    return readline($file) // '';
}

# Read a stream of the last phase, and record the values that it stores. Return its operations.
sub _read ($self, $path, $number) {
    my $content = _content($path);
    die "$path is not an operation stream; let the runner write it again\n"
        if substr($content, 0, length MAGIC) ne MAGIC
        || (length($content) - length MAGIC) % OPERATION_BYTES;
    my $operations = substr $content, length MAGIC;
    my $keys       = $self->{keys}->@*;
    my $phase      = $self->{bases}->$#*;
    my $position   = 0;
    for (my $start = 0; $start < length $operations; $start += CHUNK * OPERATION_BYTES) {
        my $chunk = substr $operations, $start, CHUNK * OPERATION_BYTES;
        for my ($verb, $key, $size) (unpack '(CxxxL<L<)*', $chunk) {
            die "$path has an operation with verb $verb, which the protocol does not know\n"
                if $verb > DELETE;
            die "$path has an operation on key $key, but there are $keys keys\n" if $key >= $keys;
            $self->_expect($key, $phase, $number, $position, $size) if $verb == SET;
            $position++;
        }
    }
    return $operations;
}

sub _expect ($self, $key, $phase, $number, $position, $size) {
    my $sequence = $self->{bases}[$phase][$number] + $position;
    my $mark     = $self->{values}->mark($key, $sequence, $size);
    $self->{tables}[$key] .= pack RECORD, $mark, $phase, $number, $position, $size;
    vec($self->{stored_since}, $key, 16) ||= $phase + 1;
    return;
}

# The text of the key with this number.
sub key ($self, $number) {
    return $self->{keys}[$number];
}

# The number of keys.
sub key_count ($self) {
    return scalar $self->{keys}->@*;
}

# Whether there are other workers.
sub is_shared ($self) {
    return $self->{workers} > 1;
}

# The values.
sub derived ($self) {
    return $self->{values};
}

# The number of the stream of the phase with this index that this worker runs.
sub own ($self, $phase) {
    return $self->{own}[$phase] // die "there is no phase with index $phase\n";
}

# The number of this worker's operations in a phase.
sub operation_count ($self, $phase) {
    $self->own($phase);
    return length($self->{operations}[$phase]) / OPERATION_BYTES;
}

# The sequence of this worker's operation at `$position` of a phase.
sub sequence ($self, $phase, $position) {
    return $self->{bases}[$phase][$self->own($phase)] + $position;
}

# Return a flat list of verb, key number and size of `$count` of this worker's operations, starting
# at `$start`.
sub operations ($self, $phase, $start, $count) {
    return unpack "\@@{[$start * OPERATION_BYTES]} (CxxxL<L<)$count", $self->{operations}[$phase];
}

# Return the same operations as a block for the loop: a flat list of verb, text of the key, value.
sub block ($self, $phase, $start, $count) {
    my ($keys, $values) = @$self{qw(keys values)};
    my $sequence = $self->sequence($phase, $start);
    my @block;
    for my ($verb, $key, $size) ($self->operations($phase, $start, $count)) {
        push @block, $verb, $keys->[$key],
            $verb == SET ? $values->derive($key, $sequence, $size) : undef;
        $sequence++;
    }
    return \@block;
}

# Whether any stream of this phase or an earlier one stores the key.
sub is_stored_by ($self, $phase, $key) {
    my $since = vec $self->{stored_since}, $key, 16;
    return $since && $since <= $phase + 1;
}

# Return a flat list of phase, stream, position and size of every set of the key whose value equals
# `$answer`. Only values of a few bytes can have several.
sub stored ($self, $key, $answer) {
    my $values = $self->{values};
    my $mark   = $values->mark_of($answer)   // return;
    my $table  = $self->{tables}[$key]       // return;
    my ($low, $high) = (0, length($table) / RECORD_BYTES);
    while ($low < $high) {
        my $middle = ($low + $high) >> 1;
        if (substr($table, $middle * RECORD_BYTES, MARK_BYTES) lt $mark) { $low  = $middle + 1 }
        else                                                             { $high = $middle }
    }
    my @stored;
    for (my $at = $low * RECORD_BYTES; $at < length $table; $at += RECORD_BYTES) {
        my ($there, @set) = unpack RECORD, substr $table, $at, RECORD_BYTES;
        last if $there ne $mark;
        my ($phase, $number, $position, $size) = @set;
        my $value = $values->derive($key, $self->{bases}[$phase][$number] + $position, $size);
        push @stored, @set if $values->same($value, $answer);
    }
    return @stored;
}

# Return the text of a key under which `$answer` is stored; undef if there is none.
sub key_of ($self, $answer) {
    for my $key (0 .. $self->{tables}->$#*) {
        return $self->key($key) if $self->stored($key, $answer);
    }
    return undef;
}

1;
