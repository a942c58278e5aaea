"""The Perl host judges rightly what is answered, with one worker and with several."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.protocol import (
    Probed,
    ProbeRead,
    ProbeWrite,
    Tally,
    ValueKind,
    Verdict,
)
from lab.stream import DELETE, GET, SET, Operation
from lab.tests import workers_rules
from lab.tests.perl_hosts import (
    LAB,
    StartHost,
    load_all,
    mixed_plan,
    open_one_by_one,
    opened,
    perl_hosts,
    probe,
    run_mixes,
    write_adapter,
)
from lab.tests.talking import Conversation, Plan, ask_all, needs

HOSTS = perl_hosts
pytestmark = needs("perl")


# One worker.


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_a_wrong_value_is_caught(host: Conversation, tmp_path: Path, value: ValueKind) -> None:
    plan = mixed_plan(tmp_path, "wrong_value", value)
    opened(host, plan)
    host.run(0)
    ran = host.run(1, "throughput")
    tally = ran.actions["get"]
    assert ran.verdict.wrong == tally.wrong == (tally.count - tally.miss) // 50
    assert ran.verdict.stale == 0
    assert len(ran.verdict.examples) == 5
    assert "that nobody stored" in ran.verdict.examples[0]


def test_another_keys_value_is_named(host: Conversation, tmp_path: Path) -> None:
    adapter = write_adapter(
        tmp_path,
        """
        sub (%of) {
            return {
                object => {}, close => sub { },
                get => sub { $_[0]{a} },
                set => sub { $_[0]{$_[1]} = $_[2]; 1 },
                delete => sub { defined delete $_[0]{$_[1]} },
            };
        }
        """,
    )
    operations = [Operation(SET, 0, 40), Operation(SET, 1, 40), Operation(GET, 1, 0)]
    plan = Plan(tmp_path, adapter, [[operations]], ["a", "b"])
    opened(host, plan)
    verdict = host.run(0).verdict
    assert verdict.wrong == 1
    assert verdict.examples == ['get("b") answered 40 bytes that belong to the key "a"']


def test_dropped_writes_are_lost(host: Conversation, tmp_path: Path) -> None:
    plan = mixed_plan(tmp_path, "drops_writes")
    opened(host, plan)
    _, verdict = probe(host)
    assert verdict.lost > 0
    assert (verdict.wrong, verdict.stale) == (0, 0)
    host.run(0)
    get = host.run(1).actions["get"]
    assert get.absent < get.miss


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_a_stale_value_is_caught(host: Conversation, tmp_path: Path, value: ValueKind) -> None:
    plan = mixed_plan(tmp_path, "stale", value)
    opened(host, plan)
    _, verdict = probe(host)
    assert verdict.stale > 0
    host.run(0)
    verdict = host.run(1).verdict
    assert verdict.stale > 0
    assert verdict.wrong == 0


def test_a_deleted_value_is_stale(host: Conversation, tmp_path: Path) -> None:
    adapter = write_adapter(
        tmp_path,
        """
        sub (%of) {
            return {
                object => {}, close => sub { }, delete => sub { 1 },
                get => sub { $_[0]{$_[1]} }, set => sub { $_[0]{$_[1]} = $_[2]; 1 },
            };
        }
        """,
    )
    operations = [Operation(SET, 0, 40), Operation(DELETE, 0, 0), Operation(GET, 0, 0)]
    plan = Plan(tmp_path, adapter, [[operations]], ["a"])
    opened(host, plan)
    assert host.run(0).verdict.stale == 1


def test_a_refusal_leaves_the_old_value_or_nothing(host: Conversation, tmp_path: Path) -> None:
    # Stores what is short. A long value is refused: under "keeps" the old one stays, under "drops"
    # it goes, under "lies" the new one is there all the same.
    adapter = write_adapter(
        tmp_path,
        """
        sub (%of) {
            return {
                object => {}, close => sub { }, delete => sub { '' },
                get => sub { $_[0]{$_[1]} },
                set => sub ($store, $key, $value) {
                    my $is_long = length $value > 100;
                    delete $store->{$key} if $is_long && $key eq 'drops';
                    $store->{$key} = $value if !$is_long || $key eq 'lies';
                    return $is_long ? 0 : 1;
                },
            };
        }
        """,
    )
    keys = ["keeps", "drops", "lies", "never"]
    operations = [Operation(SET, key, 50) for key in range(3)]
    operations += [Operation(SET, key, 150) for key in range(4)]
    operations += [Operation(GET, key, 0) for key in range(4)]
    operations += [Operation(DELETE, 0, 0), Operation(GET, 0, 0)]
    plan = Plan(tmp_path, adapter, [[operations]], keys)
    opened(host, plan)
    ran = host.run(0, block=3)
    assert ran.actions["set"] == Tally(count=7, miss=4)
    assert ran.actions["get"] == Tally(count=5, miss=2, wrong=1)
    # A delete that found nothing leaves the value in doubt, and no fault.
    assert ran.actions["delete"] == Tally(count=1, miss=1)
    assert (ran.verdict.wrong, ran.verdict.stale) == (1, 0)


def test_an_eviction_is_a_miss_that_is_not_right(host: Conversation, tmp_path: Path) -> None:
    plan = Plan(
        tmp_path,
        LAB / "contestants" / "perl_null" / "adapter.pl",
        [[[Operation(SET, 0, 50), Operation(GET, 0, 0), Operation(GET, 1, 0)]]],
        ["a", "b"],
    )
    opened(host, plan)
    assert host.run(0).actions["get"] == Tally(count=2, miss=2, absent=1)


# Several workers.

SCRIPTED = """
sub (%of) {
    open my $script, '<:raw', $of{settings}{script} or die "could not read the script: $!\\n";
    my $says = sub {
        chomp(my $line = readline $script);
        return $line =~ s/\\A=// ? pack 'H*', $line : $line eq 'nothing' ? undef : $line eq 'yes';
    };
    return {object => undef, close => sub { }, map { $_ => $says } qw(get set delete)};
}
"""


@pytest.mark.parametrize("case", workers_rules.CASES.values(), ids=list(workers_rules.CASES))
def test_what_a_worker_makes_of_an_answer(
    host: Conversation, tmp_path: Path, case: workers_rules.Case
) -> None:
    workers_rules.check(host, tmp_path, write_adapter(tmp_path, SCRIPTED), case)


@pytest.mark.parametrize("seed", range(4))
def test_a_worker_judges_as_the_reference_does(
    host: Conversation, tmp_path: Path, seed: int
) -> None:
    workers_rules.check_randomly(host, tmp_path, write_adapter(tmp_path, SCRIPTED), seed)


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_workers_on_one_honest_store_accuse_nobody(
    start: StartHost, tmp_path: Path, value: ValueKind
) -> None:
    hosts = [start() for _ in range(3)]
    plan = mixed_plan(tmp_path, "honest", value, workers=3)
    load_all(hosts, plan)
    open_one_by_one(hosts, plan)
    for ran in run_mixes(hosts, plan):
        assert ran.verdict == Verdict()
        assert ran.done == 2_000
        assert ran.elapsed_ns == ran.ended_ns - ran.started_ns
        # All keys are stored by somebody, so nobody can say that a miss was right.
        assert ran.actions["get"].absent == 0
        assert ran.actions["get"].miss < ran.actions["get"].count


@pytest.mark.parametrize("value", ["binary", "complex"])
@pytest.mark.parametrize("kind", ["wrong", "stale"])
def test_workers_catch_what_one_would(
    start: StartHost, tmp_path: Path, kind: str, value: ValueKind
) -> None:
    hosts = [start() for _ in range(3)]
    plan = mixed_plan(tmp_path, {"wrong": "wrong_value"}.get(kind, kind), value, workers=3)
    load_all(hosts, plan)
    open_one_by_one(hosts, plan)
    verdict = Verdict()
    for ran in run_mixes(hosts, plan):
        verdict.add(ran.verdict)
    assert (verdict.wrong > 0, verdict.stale > 0) == (kind == "wrong", kind == "stale")


def test_workers_read_each_others_probe_keys(start: StartHost, tmp_path: Path) -> None:
    hosts = [start() for _ in range(2)]
    plan = mixed_plan(tmp_path, "honest", workers=2)
    load_all(hosts, plan)
    open_one_by_one(hosts, plan)
    ask_all(hosts, [ProbeWrite()] * 2, Probed)
    for probed in ask_all(hosts, [ProbeRead(workers=[0, 1])] * 2, Probed):
        assert (probed.keys, probed.verdict) == (128, Verdict())
