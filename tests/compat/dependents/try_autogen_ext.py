"""autogen-ext: its ``DiskCacheStore``, also from a configuration."""

import sys

from autogen_ext.cache_store.diskcache import DiskCacheStore
from diskcache import Cache
from pydantic import BaseModel


class Answer(BaseModel):
    text: str
    tokens: int


with Cache("store") as cache:
    store = DiskCacheStore[Answer](cache)
    if sys.argv[1] == "first":
        print(store.get("question"), store.get("question", Answer(text="none", tokens=0)))
        store.set("question", Answer(text="42", tokens=7))
        store.set("question", Answer(text="43", tokens=8))
    print(store.get("question"))
    component = store.dump_component()
    print(component.provider, component.config)
    again = DiskCacheStore.load_component(component)
    print(again.get("question"), again.cache.directory == cache.directory)
    again.cache.close()
