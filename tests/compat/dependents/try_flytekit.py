"""flytekit: results of tasks that it keeps when they run locally."""

import sys

from flytekit import task, workflow
from flytekit.core.local_cache import LocalTaskCache

calls = []


@task(cache=True, cache_version="1")
def square(n: int) -> int:
    calls.append(n)
    return n * n


@task(cache=True, cache_version="1", cache_ignore_input_vars=("label",))
def named(n: int, label: str) -> dict[str, int]:
    calls.append(label)
    return {"n": n}


@workflow
def both(n: int) -> int:
    return square(n=square(n=n))


print(square(n=2), square(n=2), square(n=3), calls)
print(named(n=1, label="a"), named(n=1, label="b"), both(n=2), both(n=2), calls)
if sys.argv[1] == "second":
    LocalTaskCache.clear()
    print(square(n=2), calls)
