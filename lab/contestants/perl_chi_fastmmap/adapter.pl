# CHI over Cache::FastMmap.
use v5.36;
use CHI;
use CHI::Driver::FastMmap;
use File::Basename qw(dirname);
use lib dirname(__FILE__) . '/../perl_fastmmap';

use FastMmapPages qw(num_pages);

use constant PAGE_SIZE => 65_536;

sub (%of) {
    my $is_refused;
    my $cache = CHI->new(
        driver    => 'FastMmap',
        root_dir  => $of{folder},
        namespace => 'lab',
        page_size => PAGE_SIZE,
        $of{bytes_max} ? (num_pages => num_pages($of{bytes_max}, PAGE_SIZE)) : (),
        on_get_error => 'die',
        # CHI turns the driver's refusal into an error. All other errors are passed on.
        on_set_error => sub ($message, $key, $error) {
            $error =~ /\Afastmmap set failed/ ? $is_refused = 1 : die $message;
        },
    );
    return {
        object => $cache,
        get    => $cache->can('get'),
        set    => sub { $is_refused = 0; $_[0]->set($_[1], $_[2]); !$is_refused },
        delete => $cache->can('remove'),
        close  => sub { },
    };
}
