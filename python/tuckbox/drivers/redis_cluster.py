"""`Cluster`: the `Route` to the servers of a Redis Cluster.

Owns which server has which slot, and what shows that this changes. Must not know what the commands
do.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

from tuckbox.drivers.redis_nodes import Command, Node, converted, exchange, nonsense
from tuckbox.drivers.redis_routes import Address
from tuckbox.drivers.redis_watch import Check, Replaced
from tuckbox.errors import TuckboxError, Unreachable

__all__ = ["Cluster"]

_SLOTS = 16_384
_REDIRECTIONS_MAX = 8


class Cluster:
    """The primaries of a Redis Cluster, each of which has some of the 16,384 slots of keys.

    Which server has a slot is learned from any server that answers, and again after a redirection
    or an error. A redirected command is sent again, at most eight times. A command on a connection
    that broke is not: it may have been done.

    Args:
        seeds: Addresses of some servers.
        connect: Makes the node of an address. It opens no connection.
        slot_of: The slot of a key.
        errors: The exceptions of redis-py.
    """

    def __init__(
        self,
        seeds: Sequence[Address],
        connect: Callable[[Address], Node],
        slot_of: Callable[[bytes], int],
        errors: Any,  # noqa: ANN401 - redis-py may be missing.
    ) -> None:
        self._seeds = seeds
        self._connect = connect
        self._slot_of = slot_of
        self._errors = errors
        self._nodes: dict[Address, Node] = {}
        self._slots: Optional[list[Optional[Node]]] = None
        self.title = f"redis cluster at {', '.join(f'{host}:{port}' for host, port in seeds)}"

    def _node(self, address: Address) -> Node:
        # Atomic: two threads must not make two pools.
        return self._nodes.get(address) or self._nodes.setdefault(address, self._connect(address))

    def forget(self) -> None:
        """Have the next command ask again which server has which slot."""
        self._slots = None

    def _learned(self) -> list[Optional[Node]]:
        """Ask a server which one has which slot."""
        # In any order: one that is cut off from the others may answer, and know nothing new.
        nodes = list(self._nodes.values())
        random.shuffle(nodes)
        nodes.sort(key=lambda node: not node.answers)
        failed: Optional[Exception] = None
        for node in dict.fromkeys([*nodes, *map(self._node, self._seeds)]):
            try:
                ((reply,),) = exchange([(node, [(b"CLUSTER", b"SLOTS")])])
                if isinstance(reply, Exception):
                    raise converted(node.title, reply)
                try:
                    return self._read(node, reply)
                except (AttributeError, IndexError, TypeError, ValueError):
                    raise nonsense(node.title, reply) from None
            except TuckboxError as error:  # noqa: PERF203 - As a rule, the first answers.
                failed = error
        raise failed or Unreachable(f"{self.title} has no server")

    def _read(self, asked: Node, reply: Any) -> list[Optional[Node]]:  # noqa: ANN401 - As sent.
        slots: list[Optional[Node]] = [None] * _SLOTS
        known: set[Address] = set()
        for first, last, *members in reply:
            # An empty host is that of the server that was asked.
            addresses = [(_text(one[0]) or asked.host or "", int(one[1])) for one in members]
            known.update(addresses)
            slots[first : last + 1] = [self._node(addresses[0])] * (last + 1 - first)
        for address in set(self._nodes) - known:
            if node := self._nodes.pop(address, None):
                node.retire()
        self._slots = slots
        return slots

    def _owner(self, key: bytes) -> Node:
        slot = self._slot_of(key)
        node = (self._slots or self._learned())[slot]
        if node is not None and node.is_retired:
            # Another thread has learned something else meanwhile.
            node = self._learned()[slot]
        if node is None:
            self.forget()
            raise Unreachable(
                f"{self.title}: no server has slot {slot}; run redis-cli --cluster fix"
            )
        return node

    def groups(self, keys: Sequence[bytes]) -> list[Sequence[bytes]]:
        """See `Route.groups`."""
        return [[key] for key in keys]

    def send(self, commands: Sequence[Command], keys: Sequence[bytes]) -> list[Any]:
        """See `Route.send`."""
        replies: list[Any] = [None] * len(commands)
        left = {index: (self._owner(key), False) for index, key in enumerate(keys)}
        for _ in range(_REDIRECTIONS_MAX + 1):
            told = self._told(commands, left)
            replies = [told.get(index, reply) for index, reply in enumerate(replies)]
            left = {
                index: (self._named(left[index][0], reply), not self._is_moved(reply))
                for index, reply in told.items()
                if isinstance(reply, self._errors.AskError)
            }
            if not left:
                return replies
        raise Unreachable(
            f"{self.title} redirects a command again and again; run redis-cli --cluster check"
        )

    def _told(
        self, commands: Sequence[Command], left: dict[int, tuple[Node, bool]]
    ) -> dict[int, Any]:
        """Send some of the commands, each to its node, with ASKING before it if that is true."""
        batches: dict[Node, list[int]] = {}
        for index, (node, _) in left.items():
            batches.setdefault(node, []).append(index)
        work: list[tuple[Node, list[Command]]] = [
            (node, [one for i in batch for one in ([(b"ASKING",)] * left[i][1] + [commands[i]])])
            for node, batch in batches.items()
        ]
        try:
            told = exchange(work)
        except TuckboxError:
            self.forget()
            raise
        found: dict[int, Any] = {}
        for batch, replies in zip(batches.values(), told):
            rest = iter(replies)
            for index in batch:
                if left[index][1]:
                    next(rest)
                found[index] = next(rest)
                if isinstance(found[index], self._errors.ClusterDownError):
                    self.forget()
        return found

    def _is_moved(self, error: Exception) -> bool:
        return isinstance(error, self._errors.MovedError)

    def _named(self, asked: Node, error: Any) -> Node:  # noqa: ANN401 - An AskError.
        if self._is_moved(error):
            self.forget()
        return self._node((error.host or asked.host or "", error.port))

    def primaries(self) -> list[Node]:
        """See `Route.primaries`."""
        nodes = dict.fromkeys(self._slots or self._learned())
        return [node for node in nodes if node is not None]

    def watched(self) -> tuple[list[Any], Check]:
        """See `Route.watched`."""
        self.forget()
        return [node.watching() for node in self.primaries()], _Settled(self)

    def close(self) -> None:
        """See `Route.close`."""
        for node in list(self._nodes.values()):
            node.close()


class _State(NamedTuple):
    """What a server of a cluster knows."""

    name: str
    is_primary: bool
    is_ok: bool
    epoch: int
    writers: frozenset[str]
    """Which servers take writes: those that have slots, or get one that this server had."""


class _Settled:
    """The check of a cluster: the servers that are watched are all that take writes.

    **The race.** A server that is not watched gets a slot while the watch goes on, as a replica
    that was promoted or as a target of a migration. What is written there is told on no connection
    of the watch, and the others still answer.

    **Why no message is lost.** Let such a server *n* acknowledge a write, and the check begin
    after that. Either fails:

    - *n was elected.* A majority of the primaries has voted, and a vote raises the epoch of the
      voter before *n* takes writes. The primaries at the time of the first such election are all
      watched, so the check finds a voter's epoch raised, whatever the voter has heard since. An
      election without a result, or a migration that raises an epoch, ends the watch too.
    - *n imports a slot.* The source, a primary that is watched, sends clients to *n* only after it
      was told that the slot migrates, and names *n* as the target from then on, or as the owner.

    A slot that migrates between two watched servers needs no new watch: both tell their changes.

    **What remains** is an operator who forces a replica to take over without a vote (``TAKEOVER``),
    and a watch that begins during an election. Then a copy may be older than
    ``max_stale`` by the time that the news needs to the first watched server. A primary that the
    majority has given up refuses commands before another one is elected, so ``cluster_state`` must
    be ok everywhere.

    **Values from an old primary.** A read that a server answered before it knew that it had lost
    the slot may have left a copy, about which no message will come. So a failed check clears the
    near tier, after the route was forgotten.
    """

    commands: Sequence[Command] = ((b"CLUSTER", b"INFO"), (b"CLUSTER", b"NODES"))

    def __init__(self, route: Cluster) -> None:
        self._route = route
        self._epochs: dict[str, int] = {}

    def judge(self, replies: Sequence[Sequence[Any]]) -> None:
        states = [_state(_text(info), _text(nodes)) for info, nodes in replies]
        if not all(state.is_ok for state in states):
            raise ConnectionError("CLUSTERDOWN")
        epochs = {state.name: state.epoch for state in states}
        writers = frozenset[str]().union(*(state.writers for state in states))
        self._epochs = self._epochs or epochs
        is_same = all(state.is_primary for state in states) and writers <= set(epochs)
        if not is_same or epochs != self._epochs:
            self._route.forget()
            raise Replaced(f"{self._route.title} has other primaries now, or will have them")


def _state(info: str, nodes: str) -> _State:
    facts = dict(line.partition(":")[::2] for line in info.split())
    name, is_primary = "", False
    writers: set[str] = set()
    for line in nodes.splitlines():
        # id, address, flags, primary, ping, pong, epoch, link, slots: 0-5460 7 [9->-id]
        words = line.split()
        flags, slots = words[2].split(","), words[8:]
        if "myself" in flags:
            name, is_primary = words[0], "master" in flags
            writers.update(slot[1:-1].partition("->-")[2] for slot in slots if "->-" in slot)
        if "master" in flags and any(not slot.startswith("[") for slot in slots):
            writers.add(words[0])
    return _State(
        name,
        is_primary,
        facts["cluster_state"] == "ok",
        int(facts["cluster_current_epoch"]),
        frozenset(writers),
    )


def _text(reply: Any) -> str:  # noqa: ANN401 - As sent.
    return reply.decode() if isinstance(reply, bytes) else str(reply or "")
