"""What only the PHP host does: errors, types, missing extensions."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import struct

import msgspec
import pytest

from lab.protocol import Failed, Loaded, Opened, Prepared, Run, Tally, ValueKind, Verdict
from lab.runner import catalogue
from lab.stream import GET, SET, Operation
from lab.tests.runtimes import Hosts, gets, only, sets
from lab.tests.talking import Conversation, one_worker, prepare

pytestmark = only("php")

# A store of one entry. BODY is the code of a get.
ONE_ENTRY = """<?php
use Lab\\Host\\Limits;
use Lab\\Host\\Store;
return function (string $folder, Limits $limits, array $settings): Store {
    $entry = null;
    return new Store(
        get: function ($key) use (&$entry) { BODY },
        set: function ($key, $value) use (&$entry) { $entry = $value; },
        delete: fn ($key) => false,
        close: fn () => null,
    );
};
"""


def answering(
    hosts: Hosts, body: str, value: ValueKind = "binary", size: int = 20, base: int = 1
) -> Conversation:
    """Start a host that sets an entry and gets it, from a store whose get has this body."""
    phases = one_worker([Operation(SET, 7, size), Operation(GET, 7, 0)])
    plan = hosts.plan("honest", phases, value=value, base=base)
    plan.adapter = hosts.folder / "adapter.php"
    plan.adapter.write_text(ONE_ENTRY.replace("BODY", body))
    host = hosts.start()
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    return host


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("throw new RuntimeException('no cache today');", "RuntimeException: no cache today"),
        ("return $nothing;", "Undefined variable"),
        ("fopen('/nowhere/at/all', 'r');", "No such file"),
        ("no_such_function();", "undefined function"),
    ],
)
def test_an_error_of_any_kind_fails_the_request(hosts: Hosts, body: str, reason: str) -> None:
    host = answering(hosts, body)
    host.ask(prepare(0), Prepared)
    assert reason in host.ask(Run(0, ""), Failed).reason


def test_false_is_a_miss(hosts: Hosts) -> None:
    assert answering(hosts, "return false;").run(0).actions["get"] == Tally(count=1, miss=1)


def test_what_is_not_even_bytes_is_wrong(hosts: Hosts) -> None:
    assert answering(hosts, "return 17;").run(0).verdict.wrong == 1


def sequence_of_a_number(seed: int, key: int) -> int:
    """Return a sequence whose complex value has a field that PHP takes for a number ("12e3")."""
    for sequence in itertools.count():
        head = hashlib.sha512(struct.pack("<QQQ", seed, key, sequence)).hexdigest()
        # A large exponent would make it infinite.
        if re.fullmatch(r"\d+e0*\d{1,2}", head[8:28]):
            return sequence
    raise AssertionError


def test_fields_that_php_would_hold_equal_are_not(hosts: Hosts) -> None:
    # "12e3" == "12e3 " holds in PHP.
    body = "return array_map(fn ($text) => $text . ' ', $entry);"
    host = answering(hosts, body, "complex", 1, sequence_of_a_number(1, 7))
    assert host.run(0).verdict.wrong == 1


def test_the_order_of_fields_does_not_matter(hosts: Hosts) -> None:
    host = answering(hosts, "return array_reverse($entry, true);", "complex")
    assert host.run(0).verdict == Verdict()


@pytest.mark.parametrize("seed", ["1", 2**64])
def test_a_seed_is_an_integer(hosts: Hosts, seed: object) -> None:
    load = msgspec.to_builtins(hosts.plan("honest", one_worker(sets(10))).load())
    reply = hosts.start().say(json.dumps({**load, "seed": seed}).encode())
    assert isinstance(reply, Failed)
    assert "seed" in reply.reason


def test_an_extension_that_is_not_there_is_missing(hosts: Hosts) -> None:
    row = catalogue.contestants()["php_xcache"]
    failed = hosts.start(row).ask(hosts.plan(row, one_worker(gets(10))).load(), Failed)
    assert failed.missing
    assert "XCache" in failed.reason
