"""Values that promise more than they hold, read by a process that may not take much memory.

``python bombs.py PATH`` prints how many there were and how much memory they took.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

from tuckbox import Cache, _engine
from tuckbox.errors import EntryCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_BYTES = 512 << 20
HANG_S = 5.0
CONTAINERS = {"list": 10, "tuple": 11, "dict": 12, "set": 13, "frozenset": 14}
LEAVES = {"big int": 5, "odd str": 8, "bytearray": 9, "Decimal": 19}
MOMENTS = {"datetime": 15, "date": 16, "time": 17, "timedelta": 18, "UUID": 20}
LIES = [2**20, 10**9, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
NESTED_DEPTH = 1_000_000


def number(value: int) -> bytes:
    """As the codec writes lengths and counts."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def bombs() -> Iterator[tuple[str, int, bytes]]:
    """What it is, the tag and the bytes."""
    for name, tag in (*CONTAINERS.items(), *LEAVES.items()):
        for lie in LIES:
            for body in (b"", b"\1" * 10, b"\1" * 60_000):
                yield f"{name} of {lie}", tag, number(lie) + body
                inner = bytes([tag]) + number(lie) + body
                yield f"list of a {name} of {lie}", 10, b"\1" + inner
        yield f"{name} of an endless length", tag, b"\xff" * 60_000
        yield f"{name} of a length that is too long", tag, b"\xff" * 9 + b"\x7f" + b"\1" * 60_000
    for name, tag in CONTAINERS.items():
        one = bytes([tag, 1])
        yield f"{name} in {name}, a million deep", tag, b"\1" + one * NESTED_DEPTH
        pair = bytes([tag, 2])
        yield f"{name} in {name}, each of two", tag, b"\2" + pair * NESTED_DEPTH
        wide = bytes([tag]) + number(50_000)
        yield f"each {name} claims all that is left", tag, number(50_000) + wide * 15_000
        yield f"a {name} of a value too few", tag, number(60_001) + b"\1" * 60_000
    yield "a dict that claims pairs and has items", 12, number(50_000) + b"\1" * 60_000
    for name, tag in MOMENTS.items():
        for length in range(20):
            yield f"{name} of {length} bytes", tag, b"\xff" * length
        yield f"{name} and more", tag, b"\1" * 60_000
    yield "a time zone with a lying length", 17, bytes(7) + b"\3" + number(10**9) + b"UTC"
    yield "a Decimal that is none", 19, number(60_000) + b"e" * 60_000
    for tag in range(21, 64):
        yield f"tag {tag}", tag, b"\xff" * 60_000


def keys() -> Iterator[tuple[str, bytes]]:
    for lie in LIES:
        yield f"tuple whose item has {lie} bytes", b"\xfft" + number(lie) + b"x" * 100
    yield "tuple in tuple", b"\xfft\x02" * 20_000
    deep = b"\xfft"
    for _ in range(100):
        deep = b"\xfft" + number(len(deep)) + deep
    yield "tuple in tuple, of honest lengths", deep
    yield "an endless length", b"\xfft" + b"\xff" * 60_000
    yield "no kind", b"\xff"
    yield "an unknown kind", b"\xffz" + b"1" * 60_000
    yield "an int without digits", b"\xffi"
    yield "no text", b"\xfe" * 60_000


class Trusting(Cache):
    """Makes room for as many as are announced."""

    def __getitem__(self, key: Any) -> Any:
        tag, content = PLANTED[key]
        if tag in CONTAINERS.values():
            count = shift = 0
            for byte in content[:10]:
                count |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            return [None] * count
        return super().__getitem__(key)


class Recursive(Cache):
    """Follows containers as deep as they go."""

    def __getitem__(self, key: Any) -> Any:
        tag, content = PLANTED[key]

        def item(at: int) -> Any:
            return [item(at + 2)] if content[at] in CONTAINERS.values() else None

        if tag in CONTAINERS.values() and content[0] == 1 and len(content) > 1:
            return [item(1)]
        return super().__getitem__(key)


PLANTED: dict[str, tuple[int, bytes]] = {}


def memory_bytes() -> int:
    """The most that this process has had in memory."""
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def judge(cache: Cache) -> dict[str, int]:
    """Read each bomb, and demand that it is refused at once and takes no memory.

    Raises:
        AssertionError: One was not.
    """
    value_bytes_max = 0
    try:
        cache["k"] = [bytes(cache.size)]
    except ValueError as refusal:
        value_bytes_max = int(str(refusal).split(" bytes;")[0].split()[-1])
    cache["witness"] = "sound"
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    count = most_bytes = 0
    for what, tag, content in bombs():
        PLANTED["k"] = tag, content
        _engine._plant(cache, b"k", tag, content)
        forget_peak()
        before_bytes, began = memory_bytes(), time.monotonic()
        for read in (cache.__getitem__, cache.get, lambda _: list(cache.items())):
            try:
                read("k")
            except EntryCorrupt:
                continue
            except (MemoryError, RecursionError, OverflowError) as error:
                raise AssertionError(f"{what}: {error!r}") from error
            raise AssertionError(f"{what}: was read")
        took_s = time.monotonic() - began
        grown_bytes = memory_bytes() - before_bytes
        most_bytes = max(most_bytes, grown_bytes)
        assert grown_bytes <= value_bytes_max, f"{what}: took {grown_bytes:,} bytes"
        assert took_s < HANG_S, f"{what}: took {took_s} seconds"
        count += 1
    cache.delete("k")
    for what, key in keys():
        _engine._plant(cache, key, 0, b"value")
        try:
            found = list(cache)
        except EntryCorrupt:
            pass
        else:
            raise AssertionError(f"{what}: was read as {found!r:.60}")
        assert cache["witness"] == "sound"
        cache.clear()
        cache["witness"] = "sound"
        count += 1
    cache["k"] = {"an honest": [1, 2, ("value",)]}
    assert cache["k"] == {"an honest": [1, 2, ("value",)]}
    return {"bombs": count, "most_bytes": most_bytes, "value_bytes_max": value_bytes_max}


KINDS = {"Cache": Cache, "Trusting": Trusting, "Recursive": Recursive}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--kind", choices=KINDS, default="Cache")
    arguments = parser.parse_args()
    with KINDS[arguments.kind](arguments.path, size="32 MiB") as cache:
        json.dump(judge(cache), sys.stdout)


if __name__ == "__main__":
    main()
