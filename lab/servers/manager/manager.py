"""Serves one dictionary, as the documentation of `multiprocessing` describes a remote manager."""

from __future__ import annotations

import sys
from multiprocessing.managers import BaseManager, DictProxy


class Manager(BaseManager):
    """A manager of one object."""


def main() -> None:
    """Serve it on the socket in the second argument, with the first argument as the key."""
    entries: dict[str, object] = {}
    Manager.register("entries", callable=lambda: entries, proxytype=DictProxy)
    manager = Manager(address=sys.argv[2], authkey=sys.argv[1].encode())
    manager.get_server().serve_forever()


if __name__ == "__main__":
    main()
