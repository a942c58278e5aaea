# A host must not outlive its runner, even if the adapter hangs and the runner was killed.
#
# Owns that one request to the kernel. Must not know what the host does.
package Lab::Orphan;
use v5.36;
use Exporter 'import';
use POSIX ();

our @EXPORT_OK = qw(die_with_parent);

use constant { PR_SET_PDEATHSIG => 1 };

# The number of this system call on each machine; Perl has no name for it.
my %PRCTL_OF_MACHINE = (x86_64 => 157, aarch64 => 167, riscv64 => 167, i686 => 172, armv7l => 172);

# Make the kernel kill this process when its parent, process number `$parent`, ends.
#
# Linux only; elsewhere the host ends when it next reads or writes. Dies if the kernel refuses.
sub die_with_parent ($parent) {
    my ($system, undef, undef, undef, $machine) = POSIX::uname();
    my $prctl = $PRCTL_OF_MACHINE{$machine};
    return if $system ne 'Linux' || !defined $prctl;
    syscall($prctl, PR_SET_PDEATHSIG, POSIX::SIGKILL()) == 0
        or die "could not request a death signal: $!\n";
    # The parent may have ended before the request.
    kill KILL => $$ if getppid() != $parent;
    return;
}

1;
