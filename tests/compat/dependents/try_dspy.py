"""DSPy: the level of its cache on disk, also with its own class of ``Disk`` that limits pickle."""

import sys

import numpy
from dspy.clients.cache import Cache
from pydantic import BaseModel


class Reply(BaseModel):
    text: str


class Foreign(BaseModel):
    text: str


def use(restricted: bool) -> Cache:
    return Cache(
        enable_disk_cache=True,
        enable_memory_cache=False,
        disk_cache_dir=f"dspy-{restricted}",
        disk_size_limit_bytes=30_000_000_000,
        restrict_pickle=restricted,
        safe_types=[Reply],
    )


request = {"model": "m", "messages": [{"role": "user", "content": "What is 6 x 7?"}]}
for restricted in (False, True):
    cache = use(restricted)
    if sys.argv[1] == "first":
        print(cache.get(request))
        cache.put(request, Reply(text="42"))
        cache.put({"large": 1}, Reply(text="x" * 1_000_000))
        cache.put({"array": 1}, numpy.arange(4))
        cache.put({"foreign": 1}, Foreign(text="no"))
    print(cache.get(request), cache.cache_key(request) in cache)
    print(len(cache.get({"large": 1}).text), cache.get({"array": 1}))
    print(cache.get({"foreign": 1}), cache.get({"foreign": 1}), len(cache.disk_cache))
    cache.disk_cache.close()
