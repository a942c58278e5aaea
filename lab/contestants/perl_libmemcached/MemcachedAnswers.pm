# The meaning of an empty answer of Cache::Memcached::libmemcached.
#
# Owns the interpretation of its return codes, which CHI's driver over the same client needs too:
# get and set return undef for a miss, for a refusal and for a dead server alike.
package MemcachedAnswers;
use v5.36;
use Exporter 'import';
use Memcached::libmemcached qw(
    MEMCACHED_SUCCESS MEMCACHED_NOTFOUND MEMCACHED_E2BIG MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE
);

our @EXPORT_OK = qw(server miss refusal);

# Return the client's name for the server of `$settings`.
sub server ($settings) {
    return $settings->{socket} // "$settings->{host}:$settings->{port}";
}

# Return undef if the last answer of `$client` was a missing key; die for any other.
sub miss ($client) {
    my $code = $client->errstr;
    return undef if $code == MEMCACHED_NOTFOUND;
    die "memcached: $code\n";
}

# Return 0 if the last answer of `$client` was a refusal for lack of room, 1 for a success; die for
# any other.
sub refusal ($client) {
    my $code = $client->errstr;
    return 1 if $code == MEMCACHED_SUCCESS;
    return 0 if $code == MEMCACHED_E2BIG || $code == MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE;
    die "memcached: $code\n";
}

1;
