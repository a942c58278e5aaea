"""Whether systemd removes a user's files in memory when that user logs out.

logind does so at the last logout of a user, unless ``RemoveIPC=no`` is set or the user lingers. A
process in a login session of the user keeps that session alive. A service or a cron job of the same
user does not: it loses its files while it runs.
"""

from __future__ import annotations

import glob
import os
import pwd
import re
import warnings
from contextlib import suppress
from typing import Optional

from tuckbox.errors import LogoutWarning

__all__ = ["warn_of_logout", "warning_for"]

_MEMORY = "/dev/shm/"  # noqa: S108 - Nothing is created here.
_SYSTEM_USER_MAX = 999
_DYNAMIC_USERS = range(61184, 65520)
"""Users that systemd creates for a service. Nobody can log in as one of them."""
_FOLDERS = ("etc", "run", "usr/local/lib", "usr/lib")
"""Where systemd looks for its settings, the most important first."""
_SETTING = re.compile(r"^[ \t]*(#?)[ \t]*RemoveIPC[ \t]*=[ \t]*(\S*)", re.MULTILINE)
_FALSE = ("0", "no", "n", "false", "f", "off")

_warned: set[int] = set()
"""The users as which this process has run when it gave a warning."""


def warn_of_logout(path: str) -> None:
    """Give a `LogoutWarning` to the caller of ``Cache``, once in a process.

    Args:
        path: The absolute path of an open cache.
    """
    if os.geteuid() not in _warned and (message := warning_for(path)) is not None:
        _warned.add(os.geteuid())
        # Below the caller are Cache.__init__ and its decorator.
        warnings.warn(message, LogoutWarning, stacklevel=4)


def warning_for(path: str, *, root: str = "/") -> Optional[str]:
    """Return a warning if a logout of this user removes a file that this process uses.

    Args:
        path: The absolute path of the file.
        root: The root of the file system; another one in tests.

    Returns:
        What happens, and what to do about it. None if the file is not in danger, or if a sandbox
        hides whether it is.
    """
    user = os.geteuid()
    if not path.startswith(_MEMORY) or user <= _SYSTEM_USER_MAX or user in _DYNAMIC_USERS:
        return None
    if not os.path.isdir(f"{root}/run/systemd/users") or not _removes_files(root):
        return None  # No logind, or one that leaves files alone.
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        return None  # Without an entry in the list of users there is no login.
    lingers = os.path.exists(f"{root}/var/lib/systemd/linger/{name}")
    group = _text(f"{root}/proc/self/cgroup")
    if lingers or not group or f"/user-{user}.slice/" in group:
        return None
    return (
        f"{path} is in memory, and this process runs outside of the login sessions of {name}: "
        f"systemd removes the file when {name} logs out or a cron job of {name} ends. To keep it, "
        f"run: sudo loginctl enable-linger {name}; or give a path outside of /dev/shm, "
        "or use a system user"
    )


def _removes_files(root: str) -> bool:
    """Whether RemoveIPC is set. In the main file, comments show the distribution's default."""
    folders = [f"{root}/{folder}/systemd" for folder in _FOLDERS]
    mains = [f"{folder}/logind.conf" for folder in folders]
    # A file in a more important folder replaces those of the same name.
    additions: dict[str, str] = {}
    for folder in reversed(folders):
        for path in glob.glob(f"{glob.escape(folder)}/logind.conf.d/*.conf"):
            additions[os.path.basename(path)] = _text(path)
    main = _text(next(filter(os.path.exists, mains), ""))
    texts = [main, *(additions[name] for name in sorted(additions))]
    found = [match for text in texts for match in _SETTING.findall(text)]
    settings = [value for sort in ("#", "") for mark, value in found if mark == sort]
    return not settings or settings[-1].lower() not in _FALSE


def _text(path: str) -> str:
    with suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as stream:
        return stream.read()
    return ""
