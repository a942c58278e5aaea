# The messages between the runner and this host: one JSON object per line (see PROTOCOL.md).
#
# Owns their fields and encoding. Must not know how a request is executed.
package Lab::Message;
use v5.36;
use Encode ();
use Exporter 'import';
use JSON::PP ();

use Lab::Adapter qw(NOT_INSTALLED);

our @EXPORT_OK = qw(decode_request encode_reply failed);

use constant REASON_CHARACTERS_MAX => 2_000;

my %FIELDS_OF_VERB = (
    load => [qw(adapter distribution settings seed worker workers keys value phases)],
    open => [qw(folder entries_max bytes_max)],
    probe_write => [],
    probe_read  => [qw(workers)],
    prepare     => [qw(phase measure warmup block stretch batch seconds_max)],
    run         => [qw(start_ns durations)],
    replay      => [qw(phase start stop)],
    clear       => [],
    close       => [],
);

my %WORDS_OF_FIELD = (
    value   => [qw(binary complex)],
    measure => [qw(untimed throughput latency)],
);

my $JSON = JSON::PP->new->utf8;

# Return the request in `$line`. Its texts are bytes. Dies if it is not a request.
sub decode_request ($line) {
    my $request = eval { $JSON->decode($line) };
    die "the request is not a JSON object: $@" if ref $request ne 'HASH';
    _encode_texts($request);
    my $verb   = $request->{verb}      // die "the request has no verb\n";
    my $fields = $FIELDS_OF_VERB{$verb} // die "the verb $verb is unknown\n";
    _require_fields($verb, $request, 'verb', @$fields);
    for my $field (grep { exists $request->{$_} } sort keys %WORDS_OF_FIELD) {
        die "$verb: the $field $request->{$field} is unknown\n"
            if !grep { $_ eq $request->{$field} } $WORDS_OF_FIELD{$field}->@*;
    }
    for my $phase (($request->{phases} // [])->@*) {
        _require_fields('phase', $phase, qw(name streams));
        _require_fields('stream', $_, qw(path base)) for $phase->{streams}->@*;
    }
    return $request;
}

sub _require_fields ($what, $object, @fields) {
    my %known = map { $_ => 1 } @fields;
    exists $object->{$_} or die "$what: the field $_ is missing\n" for @fields;
    $known{$_} or die "$what: the field $_ is unknown\n" for sort keys %$object;
    return;
}

# All other modules expect paths and settings as bytes.
sub _encode_texts ($thing) {
    if (ref $thing eq 'HASH') {
        ref $_ ? _encode_texts($_) : utf8::encode($_) for grep { defined } values %$thing;
    }
    elsif (ref $thing eq 'ARRAY') {
        ref $_ ? _encode_texts($_) : utf8::encode($_) for grep { defined } @$thing;
    }
    return;
}

# Return `$reply` as a line without its line feed.
sub encode_reply ($reply) {
    return $JSON->encode($reply);
}

# Return the reply to a request that ended with `$error`.
sub failed ($error) {
    my $module = $error =~ NOT_INSTALLED ? $+{module} : undef;
    my $text   = Encode::decode('UTF-8', "$error");
    # Perl adds the line number of its standard input.
    $text =~ s/, <STDIN> line \d+//g;
    $text =~ s/\s+/ /g;
    $text =~ s/ \z//;
    return {
        event  => 'failed',
        reason => defined $module
        ? 'the Perl module ' . $module =~ s{/}{::}gr . ' is not installed'
        : substr($text, 0, REASON_CHARACTERS_MAX),
        missing => defined $module ? JSON::PP::true : JSON::PP::false,
    };
}

1;
