"""A web application: all workers, and all containers with the volume, count in one cache."""

import os

from tuckbox import Cache

cache = Cache(os.environ["APP_CACHE"], size="64 MiB")


def application(environ, start_response):
    visits = cache.incr(("visits", environ["PATH_INFO"]), default=0)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"visit {visits}, worker {os.getpid()}\n".encode()]
