#!/bin/bash
# Builds a CPython that Debian has no package of, from Debian's sources, and tries the wheels with it.
#
#   wheels/python-from-source.sh musl 3.13 trixie             linked with musl: tries the musl wheel
#   wheels/python-from-source.sh free-threaded 3.14 forky     without a GIL: builds the sdist
#
# Needs root, or sudo without a password, to install Debian's compilers and libraries. Keeps what it
# builds in target/python-*.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:?musl or free-threaded} version=${2:-3.13} suite=${3:-trixie}
made=$PWD/target/python-$kind-$version
sources=$made/sources
mkdir -p "$sources"/lists/partial

install() { # Debian packages
    dpkg-query --show "$@" > /dev/null 2>&1 && return
    local become
    become=$([ "$(id -u)" = 0 ] || echo sudo -n)
    $become apt-get update -q || true
    $become apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=600 "$@"
}

# Lists of its own, so that the machine's stay as they are. The mirror is the machine's.
fetch() { # source packages
    local mirror
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Component: main' | grep -m 1 /debian/)
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$sources/list"
    local apt=(apt-get -q -o "Dir::Etc::sourcelist=$sources/list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$sources/lists" -o APT::Sandbox::User=root)
    "${apt[@]}" update
    (cd "$sources" && "${apt[@]}" source --download-only "$@")
    for archive in "$sources"/*.orig.tar.*z; do tar -xf "$archive" -C "$sources"; done
}

build() { # folder, arguments of configure
    (cd "$1" && ./configure --prefix "$made" "${@:2}" && make -j"$(nproc)" && make install) > "$1.log" 2>&1 \
        || { tail -n 30 "$1.log" >&2; exit 1; }
}

python=$made/bin/python$version$([ "$kind" = musl ] || echo t)
if [ ! -x "$python" ]; then
    install dpkg-dev gcc make
    case $kind in
        musl)
            install musl-tools
            fetch "python$version" zlib
            export CC=musl-gcc
            build "$(echo "$sources"/zlib-*/)" --static
            build "$(echo "$sources"/Python-*/)" "CPPFLAGS=-I$made/include" "LDFLAGS=-L$made/lib"
            ;;
        free-threaded)
            install libssl-dev zlib1g-dev libffi-dev
            fetch "python$version"
            build "$(echo "$sources"/Python-*/)" --disable-gil
            ;;
        *) echo "musl or free-threaded, not $kind" >&2; exit 2 ;;
    esac
fi
if [ "$kind" = musl ]; then
    # This Python cannot reach PyPI, because it has no TLS.
    python3 -m pip download --quiet --dest "$made/tests" --platform musllinux_1_2_x86_64 --only-binary :all: \
        --python-version "$version" --requirement wheels/requirements-trial.txt
    export PIP_NO_INDEX=1 PIP_FIND_LINKS=$made/tests
fi
python3 wheels/trial.py "$python"
