# Cache::SharedMemoryCache, in shared memory that only the workers of one store can see.
use v5.36;
use Cache::SharedMemoryCache;
use Fcntl qw(O_CREAT O_EXCL O_WRONLY);
use IPC::ShareLite;
use POSIX ();

use constant CLONE_NEWIPC => 0x0800_0000;

# The module always uses this one key of the machine's shared memory.
use constant SHARE_KEY => 'ipcc';

my %UNSHARE_OF_MACHINE = (x86_64 => 272, aarch64 => 97,  riscv64 => 97);
my %SETNS_OF_MACHINE   = (x86_64 => 308, aarch64 => 268, riscv64 => 268);

# Return the share that the module made; undef if there is none. The last object that is told to
# destroy the share removes it.
my sub share ($destroy) {
    return eval { IPC::ShareLite->new(-key => SHARE_KEY, -create => 'no', -destroy => $destroy) };
}

# Create private shared memory, and write its owner to the new file `$note`. Without the right to do
# so, the owner is empty, and the data of another program must not be touched.
my sub create_memory ($note, $machine) {
    my $unshare    = $UNSHARE_OF_MACHINE{$machine};
    my $is_private = defined $unshare && syscall($unshare, CLONE_NEWIPC) == 0;
    if (!$is_private && share('no')) {
        die 'Cache::SharedMemoryCache is in use on this machine, or a killed process left its data:'
            . " end that program, remove the segment with ipcrm, or run as root\n";
    }
    print {$note} $is_private ? $$ : '' or die "could not write a note: $!\n";
    close $note or die "could not write a note: $!\n";
}

# Use the shared memory of the process that the file `$path` names. Return false if that process has
# ended, and its memory with it.
my sub join_memory ($path, $machine) {
    open my $note, '<', $path or die "could not read $path: $!\n";
    my $owner = readline($note) // return 1;
    open my $memory, '<', "/proc/$owner/ns/ipc" or return 0;
    syscall($SETNS_OF_MACHINE{$machine}, fileno $memory, CLONE_NEWIPC) == 0
        or die "could not join the shared memory of process $owner: $!\n";
    return 1;
}

# Join the memory of the workers that opened the store before, or create it.
my sub open_memory ($path, $machine) {
    my $how = O_CREAT | O_EXCL | O_WRONLY;
    my $is_new = sysopen my $note, $path, $how;
    if (!$is_new) {
        return if join_memory($path, $machine);
        unlink $path or die "could not remove $path: $!\n";
        sysopen $note, $path, $how or die "could not create $path: $!\n";
    }
    create_memory($note, $machine);
}

sub (%of) {
    my $machine = (POSIX::uname())[4];
    open_memory("$of{folder}/owner", $machine);
    my $cache = Cache::SharedMemoryCache->new({namespace => 'lab'});
    return {
        object => $cache,
        get    => $cache->can('get'),
        set    => sub { $_[0]->set($_[1], $_[2]); 1 },
        # `remove` never tells whether the key existed.
        delete => sub {
            my $found = defined $_[0]->get_object($_[1]);
            $_[0]->remove($_[1]) if $found;
            $found;
        },
        close => sub { share('yes') },
    };
}
