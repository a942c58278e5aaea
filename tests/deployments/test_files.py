"""The files of the guide are valid, say the same, and start what the guide says."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from deployments.services import FILES, PROGRAMS
from reliability.actors import demand

if TYPE_CHECKING:
    from pathlib import Path


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)


def accepted(*command: str) -> None:
    done = run(*command)
    assert done.returncode == 0, done.stdout + done.stderr


def compose(file: Path) -> list[str]:
    return [f"{PROGRAMS}/check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]


def kubernetes(file: Path) -> list[str]:
    return [f"{PROGRAMS}/kubernetes-validate", "--strict", str(file)]


def docker(file: Path) -> list[str]:
    return [f"{PROGRAMS}/hadolint", str(file)]


def systemd(file: Path) -> list[str]:
    demand("to verify units of systemd", is_there=shutil.which("systemd-analyze") is not None)
    return ["systemd-analyze", "verify", "--man=no", str(file)]


CHECKS = {
    "compose.yaml": (compose, ("services:", "service:")),
    "machines.yaml": (compose, ("shm_size:", "shm:")),
    "kubernetes.yaml": (kubernetes, ("containers:", "container:")),
    "Dockerfile": (docker, ("WORKDIR /app", "WORKDIR app")),
    "app.service": (systemd, ("ExecStart=", "Exec=")),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_file_is_valid(name: str, tmp_path: Path) -> None:
    check, (right, wrong) = CHECKS[name]
    text = (FILES / name).read_text()
    if name == "app.service":
        # The program has to exist.
        program = tmp_path / "gunicorn"
        program.touch(mode=0o755)
        text = text.replace("/opt/app/bin/gunicorn", str(program))
    file = tmp_path / name
    file.write_text(text)
    accepted(*check(file))
    # The check notices a mistake.
    assert right in text
    file.write_text(text.replace(right, wrong, 1))
    done = run(*check(file))
    assert done.returncode != 0 or wrong.strip("=") in done.stderr, done.stdout + done.stderr


def loaded(name: str) -> Any:
    return yaml.safe_load((FILES / name).read_text())


def test_the_containers_share_the_volume_of_the_cache() -> None:
    image = (FILES / "Dockerfile").read_text()
    cache = re.search(r"APP_CACHE=(\S+)", image)
    user = re.search(r"USER ([0-9]+):", image)
    assert cache
    assert user
    folder = os.path.dirname(cache[1])
    services = loaded("compose.yaml")["services"]
    assert services["web"]["volumes"] == services["worker"]["volumes"] == [f"cache:{folder}"]
    assert f"uid={user[1]}," in loaded("compose.yaml")["volumes"]["cache"]["driver_opts"]["o"]
    pod = loaded("kubernetes.yaml")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == int(user[1])
    mounts = [container["volumeMounts"] for container in pod["containers"]]
    assert mounts == [[{"name": "cache", "mountPath": folder}]] * 2


def test_the_volumes_have_room_for_the_cache() -> None:
    sizes = set()
    for name in ("app.py", "tasks.py"):
        tree = ast.parse((FILES / name).read_text())
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        keywords = [keyword for call in calls for keyword in call.keywords]
        sizes |= {ast.literal_eval(one.value) for one in keywords if one.arg == "size"}
    # With two sizes, the program that starts second would get a warning.
    assert sizes == {"64 MiB"}
    pod = loaded("kubernetes.yaml")["spec"]["template"]["spec"]
    assert pod["volumes"][0]["emptyDir"]["sizeLimit"] == "128Mi"
    assert "size=256m" in loaded("compose.yaml")["volumes"]["cache"]["driver_opts"]["o"]


def test_the_image_has_what_its_command_needs() -> None:
    image = (FILES / "Dockerfile").read_text()
    copied = {
        name
        for line in re.findall(r"^COPY (.*) \S+$", image, re.MULTILINE)
        for name in line.split()
    }
    assert copied <= {file.name for file in FILES.iterdir()}
    assert {path.name for path in FILES.glob("*.py")} | {"requirements.txt"} <= copied
