"""cashews: its backend ``disk://``, in one cache and in shards."""

import asyncio
import sys

from cashews import Cache

calls: list[int] = []


async def use(shards: int) -> Cache:
    cache = Cache()
    cache.setup(f"disk://?directory=cashews{shards}&shards={shards}")
    await cache.init()
    return cache


async def first(shards: int) -> None:
    cache = await use(shards)

    @cache(ttl="1h", key="square:{n}")
    async def square(n: int) -> int:
        calls.append(n)
        return n * n

    print([await square(n) for n in (2, 2, 3)], calls)
    print(await cache.set("k", {"a": [1]}, expire=3600), await cache.get("k"))
    print(await cache.set("k", 2, exist=False), await cache.set("new", 3, exist=False))
    print(await cache.get_expire("k") in range(3590, 3601), await cache.get_expire("new"))
    print(await cache.incr("count", expire=3600), await cache.incr("count", 4))
    await cache.set_many({"m:1": 1, "m:2": 2, "n:1": 3})
    print(await cache.get_many("m:1", "m:2", "missing"))
    print(sorted([key async for key in cache.scan("m:*")]))
    if not shards:  # with shards, cashews raises for it, and finds no key in ``scan``
        await cache.delete_match("m:*")
    print(await cache.exists("m:1"), await cache.exists("n:1"), await cache.delete("n:1"))
    await cache.set("brief", 1, expire=0.3)
    await cache.expire("new", 0.3)
    await asyncio.sleep(0.5)
    print(await cache.get("brief"), await cache.get("new"))
    async with cache.lock("work", expire=10):
        print(await cache.is_locked("work"))
    print(await cache.is_locked("work"), await cache.get_keys_count() > 0)
    await cache.close()


async def second(shards: int) -> None:
    cache = await use(shards)
    print(await cache.get("k"), await cache.get("count"), await cache.get("square:3"))
    await cache.clear()
    print(await cache.get("k"), await cache.get_keys_count())
    await cache.close()


for shards in (0, 8):
    asyncio.run(first(shards) if sys.argv[1] == "first" else second(shards))
