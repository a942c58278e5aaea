"""instructor: its class ``DiskCache``, and answers that it keeps."""

import sys
import time

from instructor.cache import DiskCache, load_cached_response, make_cache_key, store_cached_response
from pydantic import BaseModel


class User(BaseModel):
    name: str
    age: int


cache = DiskCache("answers", size_limit=50_000_000)
key = make_cache_key(
    messages=[{"role": "user", "content": "Ada is 36"}], model="m", response_model=User, mode="json"
)
if sys.argv[1] == "first":
    print(load_cached_response(cache, key, User))
    store_cached_response(cache, key, User(name="Ada", age=36), ttl=3600)
    cache.set("brief", {"n": 1}, ttl=0.3)
    cache.set("plain", ["a", 1, None])
    print(cache.get("brief"), cache.get("plain"), cache.get("missing"))
    time.sleep(0.5)
    print(cache.get("brief"))
print(load_cached_response(cache, key, User), cache.get("plain"))
cache._cache.close()
