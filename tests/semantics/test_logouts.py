"""systemd removes a user's files in memory at logout: who uses one is warned."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from reliability.boots import demand
from tuckbox import logouts

USER = 4321
FILE = "/dev/shm/tuckbox-4321/pages"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with logind, on which a service runs as user 4321, "deploy"."""
    for folder in ("run/systemd/users", "proc/self", "etc/systemd", "var/lib/systemd/linger"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/system.slice/app.service\n")
    (tmp_path / "etc/systemd/logind.conf").write_text("[Login]\n#RemoveIPC=yes\n")
    entry = pwd.struct_passwd(("deploy", "x", USER, USER, "", "/", "/bin/sh"))
    monkeypatch.setattr(os, "geteuid", lambda: USER)
    monkeypatch.setattr(pwd, "getpwuid", {USER: entry}.__getitem__)
    return tmp_path


def test_a_service_is_warned(root: Path) -> None:
    warning = logouts.warning_for(FILE, root=str(root))
    assert warning
    assert warning.startswith(f"{FILE} is in memory")
    assert "systemd removes the file when deploy logs out" in warning
    assert "run: sudo loginctl enable-linger deploy; or give a path outside of /dev/shm" in warning


@pytest.mark.parametrize("path", ["/var/cache/app.tuck", "/dev/shmem/x", "/home/deploy/app.tuck"])
def test_a_file_on_disk_is_safe(root: Path, path: str) -> None:
    assert logouts.warning_for(path, root=str(root)) is None


@pytest.mark.parametrize("user", [0, 33, 999, 61184, 65519])
def test_system_users_are_spared(root: Path, user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert logouts.warning_for(FILE, root=str(root)) is None


def test_a_machine_or_container_without_logind_removes_nothing(root: Path) -> None:
    (root / "run/systemd/users").rmdir()
    assert logouts.warning_for(FILE, root=str(root)) is None


def test_a_user_without_an_entry_in_passwd_cannot_log_in(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert logouts.warning_for(FILE, root=str(root)) is None


def test_a_user_who_lingers_is_safe(root: Path) -> None:
    (root / "var/lib/systemd/linger/deploy").touch()
    assert logouts.warning_for(FILE, root=str(root)) is None


@pytest.mark.parametrize(
    ("cgroup", "is_safe"),
    [
        ("0::/user.slice/user-4321.slice/session-3.scope\n", True),
        ("0::/user.slice/user-4321.slice/user@4321.service/app.slice/x.service\n", True),
        ("1:name=systemd:/user.slice/user-4321.slice/session-3.scope\n0::/\n", True),
        ("0::/user.slice/user-0.slice/session-1.scope\n", False),
        ("0::/system.slice/cron.service\n", False),
        ("0::/\n", False),
        ("", True),
    ],
)
def test_a_process_in_a_session_of_the_user_keeps_the_session(
    root: Path, cgroup: str, is_safe: bool
) -> None:
    (root / "proc/self/cgroup").write_text(cgroup)
    assert (logouts.warning_for(FILE, root=str(root)) is None) is is_safe


@pytest.mark.parametrize(
    ("files", "is_safe"),
    [
        ({}, False),
        ({"etc/systemd/logind.conf": "[Login]\nRemoveIPC=no\n"}, True),
        # The default of the distribution, such as Red Hat's.
        ({"etc/systemd/logind.conf": "[Login]\n#RemoveIPC=no\n"}, True),
        ({"etc/systemd/logind.conf": "[Login]\nRemoveIPC=yes\n#RemoveIPC=no\n"}, False),
        ({"etc/systemd/logind.conf": "[Login]\n RemoveIPC = off \n"}, True),
        ({"etc/systemd/logind.conf": "[Login]\nRemoveIPC=no\nRemoveIPC=yes\n"}, False),
        ({"etc/systemd/logind.conf": "[Login]\n;RemoveIPC=no\n"}, False),
        ({"usr/lib/systemd/logind.conf": "[Login]\nRemoveIPC=no\n"}, False),
        ({"usr/lib/systemd/logind.conf.d/50-ipc.conf": "[Login]\nRemoveIPC=no\n"}, True),
        (
            {
                "etc/systemd/logind.conf": "[Login]\nRemoveIPC=no\n",
                "run/systemd/logind.conf.d/10-ipc.conf": "[Login]\nRemoveIPC=1\n",
            },
            False,
        ),
        (
            {
                "usr/lib/systemd/logind.conf.d/50-ipc.conf": "[Login]\nRemoveIPC=yes\n",
                "etc/systemd/logind.conf.d/50-ipc.conf": "[Login]\nRemoveIPC=false\n",
            },
            True,
        ),
        (
            {
                "usr/lib/systemd/logind.conf.d/90-ipc.conf": "[Login]\nRemoveIPC=yes\n",
                "etc/systemd/logind.conf.d/50-ipc.conf": "[Login]\nRemoveIPC=no\n",
            },
            False,
        ),
    ],
    ids=str,
)
def test_the_settings_of_logind_decide(root: Path, files: dict[str, str], is_safe: bool) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    assert (logouts.warning_for(FILE, root=str(root)) is None) is is_safe


def test_a_service_that_opens_a_cache_in_memory_is_warned_once(tmp_path: Path) -> None:
    """On this machine, with logind's folder and a user of its own."""
    users = tmp_path / "passwd"
    users.write_text(f"{Path('/etc/passwd').read_text()}deploy:x:{USER}:{USER}::/:/bin/sh\n")
    mounts = """
mount -t tmpfs none /run && mkdir -p /run/systemd/users
mount -t tmpfs none /dev/shm
mount -t tmpfs none /etc/systemd 2> /dev/null || true
mount --bind "$1" /etc/passwd && shift && exec "$@"
"""
    prefix = ("unshare", "--mount", "sh", "-c", mounts, "sh", str(users))
    demand(prefix)
    code = f"""
import os, warnings
from tuckbox import Cache
from tuckbox.errors import LogoutWarning
os.setgid({USER}), os.setuid({USER})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for name in ("pages", "pages", "other", "/dev/shm/file"):
        Cache(name).close()
for one in caught:
    print(one.category.__name__, one.filename, one.message)
"""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"LogoutWarning <string> {FILE} is in memory")
    assert "enable-linger deploy" in line
