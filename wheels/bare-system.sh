#!/bin/bash
# Installs a wheel in a bare Debian, and follows the tutorial and the README there, as root and as
# another user. Nothing else is installed or set. Needs root.
#
#   wheels/bare-system.sh amd64 trixie
#   wheels/bare-system.sh arm64 trixie           emulated by QEMU
#   wheels/bare-system.sh amd64 forky tests      then runs the package's tests too
#
# Keeps the system in target/bare. Each trial gets an overlay of its own, in its own namespaces: the
# machine's mounts, users and settings stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."
processor=${1:?amd64 or arm64} suite=${2:-trixie} tests=${3:-}
case $processor in
    amd64) triple=x86_64 ;;
    arm64) triple=aarch64 ;;
    *) echo "amd64 or arm64, not $processor" >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "run this as root: it mounts and changes users" >&2; exit 2; }
system=$PWD/target/bare/$suite-$processor
is_foreign=$([ "$(dpkg --print-architecture)" = "$processor" ] || echo yes)

needed=(debootstrap)
[ -z "$is_foreign" ] || needed+=(qemu-user-static)
for package in "${needed[@]}"; do
    dpkg-query --show "$package" > /dev/null 2>&1 && continue
    apt-get update -q || true
    apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=600 "${needed[@]}"
done

# Runs a function of this script as root, as process 1 of new namespaces. A foreign system gets a
# user namespace too, because binfmt_misc can be set there without changing the machine.
inside() { # function
    local again=(env "INSIDE=$1" "$BASH" "$0" "$processor" "$suite" "$tests")
    if [ -z "$is_foreign" ]; then
        unshare --mount --pid --fork --kill-child "${again[@]}"
        return
    fi
    local mapped namespace
    mapped=$(mktemp -u)
    mkfifo "$mapped"
    # Until its users are mapped a process has no rights; the second bash gets them.
    unshare --user --mount --pid --fork --kill-child "$BASH" -c \
        'read -r < "$0"; exec "$@"' "$mapped" "${again[@]}" &
    namespace=$!
    while [ "$(readlink /proc/$namespace/ns/user)" = "$(readlink /proc/self/ns/user)" ]; do sleep 0.1; done
    echo "0 0 65536" > /proc/$namespace/uid_map
    echo "0 0 65536" > /proc/$namespace/gid_map
    echo > "$mapped"
    rm "$mapped"
    wait "$namespace"
}

emulate() {
    [ -n "$is_foreign" ] || return 0
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    # ELF, 64 bits, little endian, a program or a shared object, for aarch64.
    printf '%s' ':aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:F' \
        > /proc/sys/fs/binfmt_misc/register
}

# An emulated Perl searches the lists of packages repeatedly, for minutes.
shorten() {
    local wanted list
    wanted=" $(cat "$system"/debootstrap/{required,base} | tr '\n' ' ') "
    for list in "$system"/var/lib/apt/lists/*Packages; do
        awk -v wanted="$wanted" 'BEGIN { RS = ""; ORS = "\n\n" } index(wanted, " " $2 " ")' "$list" > "$list.short"
        mv "$list.short" "$list"
    done
}

second_stage() {
    emulate
    for device in null zero full random urandom tty; do mount --bind "/dev/$device" "$system/dev/$device"; done
    # In a user namespace no device can be made; debootstrap expects that of this container only.
    container=lxc chroot "$system" /debootstrap/debootstrap --second-stage
}

trial() {
    local scratch root version
    scratch=$(mktemp -d)
    emulate
    mount -t tmpfs tmpfs "$scratch"
    root=$scratch/root
    mkdir "$scratch"/{upper,work} "$root"
    mount -t overlay -o "lowerdir=$system,upperdir=$scratch/upper,workdir=$scratch/work" overlay "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mkdir "$root/mnt/packages"
    cp tests/documents.py docs/tutorial.md README.md "$root/mnt"
    cp target/packages/*manylinux*"$triple"*.whl "$root/mnt/packages"
    chroot "$root" useradd --create-home visitor
    for user in root visitor; do
        echo "-- $suite, $processor, as $user: $(chroot "$root" python3 --version)"
        chroot "$root" runuser --login "$user" --command '
            set -eu
            python3 -m venv tryout
            . tryout/bin/activate
            pip install --quiet --no-index --find-links /mnt/packages tuckbox
            python /mnt/documents.py /mnt/tutorial.md /mnt/README.md'
    done
    [ "$tests" = tests ] || return 0
    # The tests' own packages are downloaded here: the system has no certificates.
    version=$(chroot "$root" python3 -c 'import sys; print("%s.%s" % sys.version_info[:2])')
    # Pip asks the markers of the Python that runs it.
    python3 -c '
import sys
from pip._vendor.packaging.requirements import Requirement
for line in map(str.strip, sys.stdin):
    if line and line[0] != "#":
        one = Requirement(line)
        if one.marker is None or one.marker.evaluate({"python_version": sys.argv[1]}):
            print(f"{one.name}{one.specifier}")
' "$version" < wheels/requirements-trial.txt > "$root/mnt/requirements.txt"
    python3 -m pip download --quiet --dest "$root/mnt/packages" --only-binary :all: --python-version "$version" \
        --platform "manylinux_2_28_$triple" --platform "manylinux_2_17_$triple" --platform "manylinux2014_$triple" \
        --requirement "$root/mnt/requirements.txt"
    mkdir -p "$root/mnt/repository/target"
    cp -r wheels tests pyproject.toml "$root/mnt/repository"
    mv "$root/mnt/packages" "$root/mnt/repository/target"
    chroot "$root" env PIP_NO_INDEX=1 PIP_FIND_LINKS=/mnt/repository/target/packages \
        python3 /mnt/repository/wheels/trial.py python3
}

if [ -n "${INSIDE:-}" ]; then
    "$INSIDE"
    exit
fi

if [ ! -e "$system/made" ]; then
    echo "-- unpacking $suite for $processor into $system"
    rm -rf "$system"
    mkdir -p "$system"
    log=$system.log
    # The script of all suites since 2017: an older debootstrap does not know newer names.
    debootstrap ${is_foreign:+--foreign} --arch "$processor" --variant minbase --include python3,python3-venv \
        "$suite" "$system" "" /usr/share/debootstrap/scripts/sid > "$log" || { tail "$log" >&2; exit 1; }
    if [ -n "$is_foreign" ]; then
        shorten
        inside second_stage >> "$log" 2>&1 || { tail "$log" "$system/debootstrap/debootstrap.log" >&2; exit 1; }
    fi
    touch "$system/made"
fi
inside trial
echo "bare $suite on $processor: installed, and every example does what it shows"
