# One worker: executes requests and returns the replies.
#
# Owns the host's state: the adapter, the workload, the open store. Must not know the runner's plan.
# A request before the request that prepares it is the runner's error.
package Lab::Host;
use v5.36;
use JSON::PP ();
use Time::HiRes qw(clock_gettime);

use Lab::Adapter  qw(load_adapter module_version);
use Lab::Clock    qw(MONOTONIC nanoseconds timer_ns);
use Lab::Pass     ();
use Lab::Probe    qw(write_probe read_probe);
use Lab::Replay   ();
use Lab::Values   ();
use Lab::Verifier ();
use Lab::Workload ();

# `$started` is the clock at the start of the program.
sub new ($class, $started) {
    return bless {started => $started}, $class;
}

# Execute `$request` and return the reply. Dies if it fails.
sub obey ($self, $request) {
    my $obey = $self->can("_$request->{verb}");
    return $self->$obey($request);
}

sub _load ($self, $request) {
    my $before = clock_gettime(MONOTONIC);
    my $open   = load_adapter($request->{adapter});
    my $create = clock_gettime(MONOTONIC) - $before;
    my $version = module_version($request->{distribution});

    my $values = Lab::Values->new(@$request{qw(seed value)});
    %$self = (
        started  => $self->{started},
        open     => $open,
        load     => $request,
        values   => $values,
        workload => Lab::Workload->new($request, $values),
    );
    return {
        event     => 'loaded',
        runtime   => sprintf('Perl %vd', $^V),
        version   => "$version",
        started_ns => nanoseconds($self->{started}),
        create_ns => nanoseconds($create),
        timer_ns  => timer_ns(),
    };
}

sub _open ($self, $request) {
    my $load = $self->_there('load');
    die "a store is already open\n" if defined $self->{store};
    my $before = clock_gettime(MONOTONIC);
    my $store  = $self->{open}->(
        value    => $load->{value},
        settings => $load->{settings},
        map { $_ => $request->{$_} } qw(folder entries_max bytes_max),
    );
    my $elapsed = clock_gettime(MONOTONIC) - $before;
    # A new store is known to be empty.
    $self->{store}        = $store;
    $self->{verifier}     = Lab::Verifier->new($self->{workload});
    $self->{phase_last}   = -1;
    $self->{refused_keys} = {};
    $self->{replay}       = undef;
    return {event => 'opened', elapsed_ns => nanoseconds($elapsed)};
}

sub _probe_write ($self, $request) {
    return write_probe($self->_there('store'), $self->{values}, $self->{load}{worker},
        $self->{refused_keys});
}

sub _probe_read ($self, $request) {
    return read_probe($self->_there('store'), $self->{values}, $request->{workers},
        $self->{refused_keys});
}

sub _prepare ($self, $request) {
    my $store = $self->_there('store');
    # The checks rely on the order of the phases.
    die "phase $request->{phase} was requested after phase $self->{phase_last}\n"
        if $request->{phase} <= $self->{phase_last};
    $self->{phase_last} = $request->{phase};
    $self->{pass}       = Lab::Pass->new($store, @$self{qw(workload verifier)}, $request);
    return {event => 'prepared'};
}

sub _run ($self, $request) {
    my $pass = $self->_there('pass');
    delete $self->{pass};
    return $pass->run($request);
}

sub _replay ($self, $request) {
    my $store = $self->_there('store');
    $self->{replay} //= Lab::Replay->new(@$self{qw(workload values)}, $request->{phase});
    return $self->{replay}->run($store, @$request{qw(start stop)});
}

sub _clear ($self, $request) {
    my $store = $self->_there('store');
    my $clear = $store->{clear};
    return {event => 'cleared', cleared => JSON::PP::false, elapsed_ns => 0} if !defined $clear;
    my $before = clock_gettime(MONOTONIC);
    $clear->($store->{object});
    my $elapsed = clock_gettime(MONOTONIC) - $before;
    return {event => 'cleared', cleared => JSON::PP::true, elapsed_ns => nanoseconds($elapsed)};
}

sub _close ($self, $request) {
    my $store = $self->_there('store');
    # A pass that was not run would keep the store alive.
    delete @$self{qw(store pass)};
    my $before = clock_gettime(MONOTONIC);
    $store->{close}->($store->{object});
    undef $store;
    my $elapsed = clock_gettime(MONOTONIC) - $before;
    return {event => 'closed', elapsed_ns => nanoseconds($elapsed)};
}

sub _there ($self, $what) {
    return $self->{$what} // die "the runner requested a step before the step that prepares it\n";
}

1;
