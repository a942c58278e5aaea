# Derived values: a pseudo-random function of seed, key number and sequence, cut to size.
#
# Owns the derivation, which all hosts repeat bit for bit (PROTOCOL.md has it, with vectors), and
# how an answer is recognised without keeping the stored values. Must not know who stores the
# values, or when.
package Lab::Values;
use v5.36;
use Digest::SHA qw(sha512);
use List::Util  qw(minstr);

use constant {
    HEAD_BYTES   => 64,
    POOL_BLOCKS  => 65_536,
    POOL_OFFSETS => 2**20,
    FIELD_BYTES  => 14,
    BYTES_MAX    => 3 * 2**20,
    # Below this many bytes an answer could be right by chance.
    WEAK_BELOW_BYTES => 8,
};

# `$kind` is "binary" (values are byte strings, sizes are bytes) or "complex" (values are references
# to hashes of texts, sizes are fields).
sub new ($class, $seed, $kind) {
    # Not a list: Perl keeps its memory, which a store could use uncounted in a replay.
    my $pool = '';
    $pool .= sha512(pack 'Q<L<', $seed, $_) for 0 .. POOL_BLOCKS - 1;
    return bless {seed => $seed, pool => $pool, complex => $kind eq 'complex'}, $class;
}

# Return the value of `$sequence` of the key with number `$key`, with the given size.
sub derive ($self, $key, $sequence, $size) {
    return $self->_bytes($key, $sequence, $size) if !$self->{complex};
    return {unpack "(H8H20)$size", $self->_bytes($key, $sequence, FIELD_BYTES * $size)};
}

sub _bytes ($self, $key, $sequence, $length) {
    my $head = sha512(pack 'Q<Q<Q<', $self->{seed}, $key, $sequence);
    return substr $head, 0, $length if $length <= HEAD_BYTES;
    die "a value of $length bytes is longer than the protocol allows\n" if $length > BYTES_MAX;
    my $offset = unpack('L<', $head) % POOL_OFFSETS;
    return $head . substr $self->{pool}, $offset, $length - HEAD_BYTES;
}

# Return the mark of that value: the first 4 bytes of a byte string, padded with zeros, or the
# smallest name of a hash. Several values can share a mark.
sub mark ($self, $key, $sequence, $size) {
    return pack 'a4', $self->_bytes($key, $sequence, $size) if !$self->{complex};
    return minstr unpack '(a4x10)*', $self->_bytes($key, $sequence, FIELD_BYTES * $size);
}

# Return the mark of an answer; undef if it is not of this kind.
sub mark_of ($self, $answer) {
    return ref $answer ? undef : pack 'a4', $answer if !$self->{complex};
    return ref $answer eq 'HASH' ? pack 'H8', minstr(keys %$answer) // '' : undef;
}

# Whether `$answer` equals `$value`: the same bytes, or the same names with the same texts.
sub same ($self, $value, $answer) {
    return !ref $answer && $answer eq $value if !$self->{complex};
    return '' if ref $answer ne 'HASH' || keys %$answer != keys %$value;
    for my $name (keys %$value) {
        my $text = $answer->{$name};
        return '' if !defined $text || ref $text || $text ne $value->{$name};
    }
    return 1;
}

# Whether a value of `$size` is so short that an answer could be right by chance.
sub is_weak ($self, $size) {
    return !$self->{complex} && $size < WEAK_BELOW_BYTES;
}

# Return a short description of `$answer`.
sub describe ($self, $answer) {
    return ref $answer eq 'HASH' ? keys(%$answer) . ' fields' : 'a reference to ' . ref $answer
        if ref $answer;
    return length($answer) . ' bytes';
}

1;
