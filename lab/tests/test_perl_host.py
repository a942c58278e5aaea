"""What only the Perl host does."""

from __future__ import annotations

from lab.protocol import Failed, Loaded, Opened
from lab.tests.runtimes import Hosts, only
from lab.tests.talking import Conversation, Plan

pytestmark = only("perl")


def own_adapter(hosts: Hosts, code: str) -> tuple[Conversation, Plan]:
    """Start a host for an adapter with this text."""
    plan = hosts.plan("honest", [[[]]])
    plan.adapter = hosts.folder / "adapter.pl"
    plan.adapter.write_text(f"use v5.36;\n{code}", "utf-8")
    return hosts.start(), plan


def test_an_error_that_is_no_text_is_told(hosts: Hosts) -> None:
    code = "sub (%of) { die qq{no cache today: \\xff\\n} if $of{bytes_max}; {} }"
    host, plan = own_adapter(hosts, code)
    host.ask(plan.load(), Loaded)
    assert host.ask(plan.open(), Failed) == Failed("no cache today: \N{REPLACEMENT CHARACTER}")
    # The host continues.
    plan.adapter = hosts.adapter(hosts.row("honest"))
    host.ask(plan.load(), Loaded)
    host.ask(plan.open("second"), Opened)


def test_a_module_that_is_not_installed_is_missing(hosts: Hosts) -> None:
    host, plan = own_adapter(hosts, "use No::Such::Module;\nsub (%of) { {} }")
    reply = host.ask(plan.load(), Failed)
    assert reply.missing
    assert reply.reason == "the Perl module No::Such::Module is not installed"


def test_a_broken_adapter_is_not_missing(hosts: Hosts) -> None:
    host, plan = own_adapter(hosts, "sub (%of) { {} ")
    assert not host.ask(plan.load(), Failed).missing


def test_the_version_of_the_distribution_is_reported(hosts: Hosts) -> None:
    plan = hosts.plan("honest", [[[]]], distribution="Storable")
    assert float(hosts.start().ask(plan.load(), Loaded).version.split("_")[0]) > 3
