"""A web application on several machines: a cache on each, and Redis behind all of them."""

import os
import time

from tuckbox import connect

cache = connect("shared:pages?size=32MiB", os.environ["APP_SERVER"])


def application(environ, start_response):
    text = cache.get_or_set(
        ("page", environ["PATH_INFO"]),
        lambda: f"made at {time.time_ns()}",
        ttl=60,
        force=environ["QUERY_STRING"] == "new",
    )
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [text.encode()]
