"""py-key-value-aio: its stores on disk, which FastMCP keeps its state in."""

import asyncio
import sys
from pathlib import Path

from key_value.aio.stores.disk import DiskStore, MultiDiskStore


async def first() -> None:
    async with DiskStore(directory="store", max_size=100_000_000) as store:
        await store.put("user", {"name": "Ada"}, collection="users", ttl=3600)
        await store.put("brief", {"n": 1}, ttl=0.5)
        await store.put_many(["a", "b", "c"], [{"n": n} for n in range(3)])
        value, ttl = await store.ttl("user", collection="users")
        print(value, ttl is not None and 3500 < ttl <= 3600)
        print(await store.get_many(["a", "b", "missing"]), await store.get("user"))
        print(await store.delete("a"), await store.delete("a"), await store.get("a"))
        await asyncio.sleep(0.7)
        print(await store.get("brief"))
        await store.put("large", {"text": "x" * 2_000_000})
    async with MultiDiskStore(base_directory=Path("stores")) as stores:
        await stores.put("k", {"of": "one"}, collection="one")
        await stores.put("k", {"of": "two"}, collection="two")


async def second() -> None:
    async with DiskStore(directory="store") as store:
        print(await store.get("user", collection="users"), await store.get("b"))
        print(len((await store.get("large"))["text"]))
    async with MultiDiskStore(base_directory=Path("stores")) as stores:
        print(await stores.get("k", collection="one"), await stores.get("k", collection="two"))


asyncio.run(first() if sys.argv[1] == "first" else second())
