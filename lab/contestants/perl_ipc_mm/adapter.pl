# IPC::MM 0.03: a tree or a hash in a shared memory segment, as the settings say.
use v5.36;
use IPC::MM;
use Storable qw(freeze thaw);

my %STRUCTURES = (
    btree => {
        make   => sub { IPC::MM::mm_make_btree_table($_[0]) },
        get    => sub { IPC::MM::mm_btree_table_get($_[0], $_[1]) },
        set    => sub { IPC::MM::mm_btree_table_insert($_[0], $_[1], $_[2]) },
        delete => sub { defined IPC::MM::mm_btree_table_delete($_[0], $_[1]) },
    },
    hash => {
        make => sub { IPC::MM::mm_make_hash($_[0]) },
        # The documented name, mm_hash_get, does not exist.
        get => sub { IPC::MM::mm_hash_get_value($_[0], $_[1]) },
        set => sub { IPC::MM::mm_hash_insert($_[0], $_[1], $_[2]) },
        # mm_hash_delete never tells whether the key existed.
        delete => sub {
            my $found = IPC::MM::mm_hash_exists($_[0], $_[1]);
            IPC::MM::mm_hash_delete($_[0], $_[1]) if $found;
            $found;
        },
    },
);

sub (%of) {
    # Each worker has its own segment, and so its own lock.
    my $segment = IPC::MM::mm_create($of{bytes_max}, "$of{folder}/lock-$$")
        or die 'could not create the segment: ', IPC::MM::mm_error(), "\n";
    my $structure = $STRUCTURES{$of{settings}{structure}};
    my ($make, $get, $set, $delete) = @$structure{qw(make get set delete)};
    my $table = $make->($segment)
        or die 'could not make the table: ', IPC::MM::mm_error(), "\n";
    my $is_complex = $of{value} eq 'complex';
    return {
        object => $table,
        get    => $is_complex
            ? sub { my $frozen = $get->($_[0], $_[1]); defined $frozen ? thaw($frozen) : undef }
            : $get,
        set    => $is_complex ? sub { $set->($_[0], $_[1], freeze($_[2])) } : $set,
        delete => $delete,
        close  => sub { IPC::MM::mm_destroy($segment) },
    };
}
