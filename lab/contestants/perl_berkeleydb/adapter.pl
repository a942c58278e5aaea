# A BerkeleyDB B-tree in an environment of the Concurrent Data Store.
use v5.36;
use BerkeleyDB;
use Storable qw(freeze thaw);

sub (%of) {
    my $environment = BerkeleyDB::Env->new(
        -Home  => $of{folder},
        -Flags => DB_CREATE | DB_INIT_CDB | DB_INIT_MPOOL,
        $of{bytes_max} ? (-Cachesize => $of{bytes_max}) : (),
    ) or die "could not open the environment in $of{folder}: $BerkeleyDB::Error\n";
    my $database = BerkeleyDB::Btree->new(
        -Filename => 'cache.db',
        -Flags    => DB_CREATE,
        -Env      => $environment,
    ) or die "could not open the database in $of{folder}: $BerkeleyDB::Error\n";

    my $get = sub {
        my $status = $_[0]->db_get($_[1], my $value);
        return $value if $status == 0;
        return undef  if $status == DB_NOTFOUND;
        die "db_get: $status\n";
    };
    my $set = sub {
        my $status = $_[0]->db_put($_[1], $_[2]);
        return 1 if $status == 0;
        die "db_put: $status\n";
    };
    my $delete = sub {
        my $status = $_[0]->db_del($_[1]);
        return 1  if $status == 0;
        return '' if $status == DB_NOTFOUND;
        die "db_del: $status\n";
    };
    my $is_complex = $of{value} eq 'complex';
    return {
        object => $database,
        get    => $is_complex
            ? sub { my $frozen = $get->($_[0], $_[1]); defined $frozen ? thaw($frozen) : undef }
            : $get,
        set    => $is_complex ? sub { $set->($_[0], $_[1], freeze($_[2])) } : $set,
        delete => $delete,
        close  => sub { $_[0]->db_close == 0 or die "could not close: $BerkeleyDB::Error\n" },
    };
}
