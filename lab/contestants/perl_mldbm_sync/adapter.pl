# MLDBM::Sync over MLDBM::Sync::SDBM_File, with the tied object's own methods on the hot path.
use v5.36;
use Fcntl qw(O_CREAT O_RDWR);
use MLDBM qw(MLDBM::Sync::SDBM_File Storable);
use MLDBM::Sync;

sub (%of) {
    my $database = tie my %entries, 'MLDBM::Sync', "$of{folder}/cache", O_CREAT | O_RDWR, 0600
        or die "could not open the database in $of{folder}: $!\n";
    return {
        object => $database,
        get    => sub { $_[0]->FETCH($_[1]) },
        set    => sub { $_[0]->STORE($_[1], $_[2]); 1 },
        delete => sub {
            # The answer of DELETE does not tell whether the key existed.
            $_[0]->Lock;
            my $found = $_[0]->EXISTS($_[1]);
            $_[0]->DELETE($_[1]) if $found;
            $_[0]->UnLock;
            $found;
        },
        close => sub { },
    };
}
