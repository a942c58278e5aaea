# What it means that Cache::Memcached::libmemcached answered nothing.
#
# Owns the reading of its return codes, which CHI's driver over the same client needs too: get and
# set answer undef for a miss or a refusal, and just the same when the server has died.
package MemcachedAnswers;
use v5.36;
use Exporter 'import';
use Memcached::libmemcached qw(
    MEMCACHED_SUCCESS MEMCACHED_NOTFOUND MEMCACHED_E2BIG MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE
);

our @EXPORT_OK = qw(server miss refusal);

# How the client names the server of `$settings`.
sub server ($settings) {
    return $settings->{socket} // "$settings->{host}:$settings->{port}";
}

# Return undef when the last answer of `$client` was that there is no such key; die for any other.
sub miss ($client) {
    my $code = $client->errstr;
    return undef if $code == MEMCACHED_NOTFOUND;
    die "memcached: $code\n";
}

# Return 0 when the last answer of `$client` was that the value has no room, 1 when it was success;
# die for any other.
sub refusal ($client) {
    my $code = $client->errstr;
    return 1 if $code == MEMCACHED_SUCCESS;
    return 0 if $code == MEMCACHED_E2BIG || $code == MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE;
    die "memcached: $code\n";
}

1;
