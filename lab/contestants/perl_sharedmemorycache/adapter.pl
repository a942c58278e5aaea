# Cache::SharedMemoryCache, in shared memory that nobody else sees.
use v5.36;
use Cache::SharedMemoryCache;
use IPC::ShareLite;
use POSIX ();

use constant CLONE_NEWIPC => 0x0800_0000;

# The module always uses this one key of the machine's shared memory.
use constant SHARE_KEY => 'ipcc';

my %UNSHARE_OF_MACHINE = (x86_64 => 272, aarch64 => 97, riscv64 => 97);

# Whether this process has shared memory of its own since a former store was opened.
my $is_private;

# Return the share that the module made, undef when there is none. It is removed with the last
# object that was told to destroy it.
my sub share ($destroy) {
    return eval { IPC::ShareLite->new(-key => SHARE_KEY, -create => 'no', -destroy => $destroy) };
}

sub (%of) {
    my $unshare = $UNSHARE_OF_MACHINE{(POSIX::uname())[4]};
    $is_private ||= defined $unshare && syscall($unshare, CLONE_NEWIPC) == 0;
    # Without the right to that, what another program keeps there must not be touched.
    if (!$is_private && share('no')) {
        die 'Cache::SharedMemoryCache is in use on this machine, or a killed process left its data:'
            . " end that program, remove the segment with ipcrm, or run as root\n";
    }
    my $cache = Cache::SharedMemoryCache->new({namespace => 'lab'});
    return {
        object => $cache,
        get    => $cache->can('get'),
        set    => sub { $_[0]->set($_[1], $_[2]); 1 },
        # `remove` answers the same in either case.
        delete => sub {
            my $found = defined $_[0]->get_object($_[1]);
            $_[0]->remove($_[1]) if $found;
            $found;
        },
        close => sub { share('yes') },
    };
}
