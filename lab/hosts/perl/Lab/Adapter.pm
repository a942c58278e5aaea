# The contract of adapters, and how the host loads them.
#
# Owns the contract between this host and the contestants written in Perl. Must not know any of
# them, nor how they are measured.
#
# An adapter is the file `adapter.pl` in a contestant's folder. The last value of the file is a
# reference to a function that opens the store:
#
#     sub (%of) { ... return {object => ..., get => ..., set => ..., delete => ..., close => ...} }
#
# It is called with names and values:
#
#     folder       the folder of the store; empty the first time
#     entries_max  limit of the store in entries; 0 for none
#     bytes_max    limit of the store in bytes; 0 for none
#     value        "binary": values are byte strings; "complex": references to hashes of texts
#     settings     a reference to a hash of texts, the contestant's own
#
# It returns a reference to a hash with an object (anything) and references to code, each called
# in scalar context with the object before its arguments:
#
#     get->(object, key)         the value stored last, or undef if there is none
#     set->(object, key, value)  0 or '' if the store refused; anything else, even undef, if it
#                                stored
#     delete->(object, key)      true if it deleted something
#     close->(object)            nothing; frees the process's resources, keeps the store's data
#     clear->(object)            nothing; empties the store. Omitted if the library has no
#                                operation for that
#
# Keys are ASCII. A documented refusal (too large, no room) is an answer; for any other error an
# adapter dies. The loop calls the code by reference. A library's own method, as `can` returns it,
# needs no wrapper, which would cost another 50 ns. Adapters `use` the modules they need, so that a
# missing module is recognised when the file is compiled.
package Lab::Adapter;
use v5.36;
use Exporter 'import';
use File::Spec ();

our @EXPORT_OK = qw(load_adapter module_version NOT_INSTALLED);

# Perl's message when a module, or the C library of its compiled part, is missing. The capture
# `module` has the module's name, with slashes or colons.
use constant NOT_INSTALLED => qr{
    \A Can't\ (?: locate\ (?<module> \S+ )\.pm\ in\ \@INC
             | load\ '\S+'\ for\ module\ (?<module> \w+(?:::\w+)* ) )
}x;

# Compile the adapter in the file `$path` and return its function. Dies if that fails.
sub load_adapter ($path) {
    # Perl searches its module folders for a relative path.
    my $open = do File::Spec->rel2abs($path);
    die $@ if $@;
    die "could not read $path: $!\n" if !defined $open;
    die "$path does not end with a reference to a function\n" if ref $open ne 'CODE';
    return $open;
}

# Return the version of `$module`, or '' if it has none. Dies if it is not installed.
sub module_version ($module) {
    return '' if $module eq '';
    require $module =~ s{::}{/}gr . '.pm';
    return $module->VERSION // '';
}

1;
