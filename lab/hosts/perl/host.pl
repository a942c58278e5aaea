#!/usr/bin/perl
# Reads requests from standard input, executes them one by one, answers on standard output.
#
# Owns the process: its input, output and end. Must not know what a request means.
# Started as `perl host.pl PARENT`, where PARENT is the process that the host must not outlive.
use v5.36;
use Time::HiRes ();

my $started;
BEGIN { $started = Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC()) }

use FindBin ();
use lib $FindBin::RealBin;

use Lab::Host;
use Lab::Message qw(decode_request encode_reply failed);
use Lab::Orphan qw(die_with_parent);

@ARGV == 1 && $ARGV[0] =~ /\A[0-9]+\z/ or die "usage: host.pl PROCESS_ID_OF_THE_PARENT\n";
die_with_parent($ARGV[0]);

# If a server closes its connection, the library gets an error, and the host goes on.
$SIG{PIPE} = 'IGNORE';

# Replies go to a private copy of the output. The output of adapters goes to the error output.
open my $replies, '>&', \*STDOUT or die "could not copy the standard output: $!\n";
open STDOUT, '>&', \*STDERR or die "could not redirect the standard output: $!\n";
binmode STDIN;
binmode $replies;
$replies->autoflush(1);
STDOUT->autoflush(1);

my $host = Lab::Host->new($started);
while (defined(my $line = readline STDIN)) {
    my $reply = eval { $host->obey(decode_request($line)) };
    if (!defined $reply) {
        print STDERR $@;
        $reply = failed($@);
    }
    print {$replies} encode_reply($reply), "\n" or die "could not answer the runner: $!\n";
}
