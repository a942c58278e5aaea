# The replay of a trace: look up, store on a miss, count the hits.
#
# Owns the order of those two and what a hit must answer. Must not time anything: the hit ratio is
# the result.
package Lab::Replay;
use v5.36;
no warnings 'experimental::for_list';
use Exporter 'import';
use List::Util qw(max min);

use Lab::Disk    qw(bytes_occupied);
use Lab::Verdict ();

our @EXPORT_OK = qw(replay);

use constant REQUESTS_BETWEEN_WEIGHINGS => 1_000;

# Replay the phase on an empty store that lives in `$folder` and return the reply. This process
# alone writes, so a hit must answer exactly the value stored last: anything else is wrong.
sub replay ($store, $workload, $values, $phase, $folder) {
    my ($object, $get, $set) = @$store{qw(object get set)};
    my $verdict  = Lab::Verdict->new;
    my $requests = $workload->operation_count($phase);
    my ($hits, $refused, $bytes_peak, %stored) = (0, 0, 0);
    for (my $start = 0; $start < $requests; $start += REQUESTS_BETWEEN_WEIGHINGS) {
        my $count    = min(REQUESTS_BETWEEN_WEIGHINGS, $requests - $start);
        my $sequence = $workload->sequence($phase, $start);
        for my ($verb, $key, $size) ($workload->operations($phase, $start, $count)) {
            my $text   = $workload->key($key);
            my $answer = $get->($object, $text);
            if (defined $answer) {
                $hits++;
                my $last     = $stored{$key};
                my $is_right = $last && $values->same($values->derive($key, @$last), $answer);
                $verdict->add(wrong => sub {
                    return "get(\"$text\") answered not what was stored last";
                }) if !$is_right;
            }
            else {
                my $stored = $set->($object, $text, $values->derive($key, $sequence, $size));
                if (defined $stored && !$stored) {
                    $refused++;
                }
                else {
                    $stored{$key} = [$sequence, $size];
                }
            }
            $sequence++;
        }
        $bytes_peak = max($bytes_peak, bytes_occupied($folder));
    }
    return {
        event      => 'replayed',
        requests   => $requests,
        hits       => $hits,
        refused    => $refused,
        bytes_peak => $bytes_peak,
        verdict    => $verdict->message,
    };
}

1;
