# Tokyo Cabinet in the process, with its own methods on the hot path.
use v5.36;
use TokyoCabinet;

my %OPEN = (
    hash => sub ($folder) {
        my $database = TokyoCabinet::HDB->new;

        # Each writer has its own file: a writer would wait until another closes a shared one.
        my $how = TokyoCabinet::HDB::OWRITER | TokyoCabinet::HDB::OCREAT | TokyoCabinet::HDB::OLCKNB;
        my $is_open = $database->open("$folder/cache.tch", $how)
            || $database->open("$folder/cache-$$.tch", $how);
        die 'could not open the database: ', $database->errmsg, "\n" if !$is_open;
        return $database;
    },
    mdb => sub ($folder) {
        my $database = TokyoCabinet::ADB->new;
        $database->open('*') or die "could not open the database in memory\n";
        return $database;
    },
);

sub (%of) {
    my $database = $OPEN{$of{settings}{kind}}->($of{folder});
    return {
        object => $database,
        get    => $database->can('get'),
        set    => $database->can('put'),
        delete => $database->can('out'),
        clear  => sub { $_[0]->vanish or die "could not empty the database\n" },
        close  => sub { $_[0]->close or die "could not close the database\n" },
    };
}
