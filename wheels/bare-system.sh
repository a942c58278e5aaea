#!/bin/bash
# Installs a wheel in a bare Debian, and follows the tutorial and the README there, as root and as
# another user. Nothing else is installed or set. Needs root.
#
#   wheels/bare-system.sh amd64 trixie
#   wheels/bare-system.sh arm64 trixie     emulated by QEMU
#
# Keeps the system in target/bare. Each trial gets an overlay of its own, in its own namespaces: the
# machine's mounts, users and settings stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."
processor=${1:?amd64 or arm64} suite=${2:-trixie}
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
inside() { # function, arguments
    if [ -z "$is_foreign" ]; then
        unshare --mount --pid --fork --kill-child "$BASH" "$0" "$processor" "$suite" inside "$@"
        return
    fi
    local mapped namespace
    mapped=$(mktemp -u)
    mkfifo "$mapped"
    # Until its users are mapped a process has no rights; the second bash gets them.
    unshare --user --mount --pid --fork --kill-child "$BASH" -c \
        'read -r < "$0"; exec "$@"' "$mapped" "$BASH" "$0" "$processor" "$suite" inside "$@" &
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

second_stage() {
    emulate
    for device in null zero full random urandom tty; do mount --bind "/dev/$device" "$system/dev/$device"; done
    chroot "$system" /debootstrap/debootstrap --second-stage
}

trial() {
    local scratch root
    scratch=$(mktemp -d)
    emulate
    mount -t tmpfs tmpfs "$scratch"
    root=$scratch/root
    mkdir "$scratch"/{upper,work} "$root"
    mount -t overlay -o "lowerdir=$system,upperdir=$scratch/upper,workdir=$scratch/work" overlay "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mkdir "$root/mnt/wheels"
    cp tests/documents.py docs/tutorial.md README.md "$root/mnt"
    cp target/wheels/*manylinux*"$triple"*.whl "$root/mnt/wheels"
    chroot "$root" useradd --create-home visitor
    for user in root visitor; do
        echo "-- $suite, $processor, as $user: $(chroot "$root" python3 --version)"
        chroot "$root" runuser -u "$user" -- env -i PATH=/usr/bin:/bin bash -euc '
            cd
            python3 -m venv tryout
            . tryout/bin/activate
            pip install --quiet --no-index --find-links /mnt/wheels tuckbox
            python /mnt/documents.py /mnt/tutorial.md /mnt/README.md'
    done
}

if [ "${3:-}" = inside ]; then
    "${@:4}"
    exit
fi

if [ ! -e "$system/made" ]; then
    echo "-- unpacking $suite for $processor into $system"
    rm -rf "$system"
    mkdir -p "$system"
    log=$system.log
    debootstrap ${is_foreign:+--foreign} --arch "$processor" --variant minbase \
        --include python3,python3-venv "$suite" "$system" > "$log" || { tail "$log" >&2; exit 1; }
    if [ -n "$is_foreign" ]; then
        inside second_stage >> "$log" 2>&1 || { tail "$log" "$system/debootstrap/debootstrap.log" >&2; exit 1; }
    fi
    touch "$system/made"
fi
inside trial
echo "bare $suite on $processor: installed, and every example does what it shows"
