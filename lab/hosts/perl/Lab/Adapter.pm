# What an adapter is, and how one gets into the host.
#
# Owns the contract between this host and the contestants written in Perl. Must not know any of
# them, nor how they are measured.
#
# An adapter is the file `adapter.pl` in a contestant's folder. The last value of the file is a
# reference to a function, which opens the store:
#
#     sub (%of) { ... return {object => ..., get => ..., set => ..., delete => ..., close => ...} }
#
# It is called with names and values:
#
#     folder       the folder in which the store lives; empty the first time
#     entries_max  how many entries the store may hold; 0 for no limit
#     bytes_max    how many bytes the store may hold; 0 for no limit
#     value        "binary": values are byte strings; "complex": references to hashes of texts
#     settings     a reference to a hash of texts, the contestant's own
#
# and returns a reference to a hash of an object (anything) and references to code, each called
# in scalar context with the object before its arguments:
#
#     get->(object, key)         the value stored last, or undef when there is none
#     set->(object, key, value)  0 or '' when the store refused; anything else, undef included, when
#                                it stored
#     delete->(object, key)      true when there was something to delete
#     close->(object)            nothing; gives back what the process holds, keeps what the store
#                                holds
#     clear->(object)            nothing; empties the store. Left out where the library has no
#                                operation for that
#
# Keys are ASCII. A documented refusal (too large, no room) is an answer; for any other error an
# adapter dies. The loop calls the code by reference, so that a library's own method, as `can`
# returns it, is on the hot path without a wrapper, which would cost another 50 ns. Adapters `use`
# the modules they need: a file that does not compile for want of one is told from other failures.
package Lab::Adapter;
use v5.36;
use Exporter 'import';
use File::Spec ();

our @EXPORT_OK = qw(load_adapter module_version NOT_INSTALLED);

# What Perl says when there is no such module, or when the C library of its compiled part is gone.
# The capture `module` has the module's name, with slashes or colons.
use constant NOT_INSTALLED => qr{
    \A Can't\ (?: locate\ (?<module> \S+ )\.pm\ in\ \@INC
             | load\ '\S+'\ for\ module\ (?<module> \w+(?:::\w+)* ) )
}x;

# Compile the adapter in the file `$path` and return its function. Dies when it cannot be.
sub load_adapter ($path) {
    # Perl looks for a relative path among its modules.
    my $open = do File::Spec->rel2abs($path);
    die $@ if $@;
    die "could not read $path: $!\n" if !defined $open;
    die "$path does not end with a reference to a function\n" if ref $open ne 'CODE';
    return $open;
}

# Return the version of `$module`, or '' when it has none. Dies when it is not installed.
sub module_version ($module) {
    return '' if $module eq '';
    require $module =~ s{::}{/}gr . '.pm';
    return $module->VERSION // '';
}

1;
