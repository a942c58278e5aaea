#!/bin/bash
# Runs the tests of this folder with another version of Django than that of requirements-dev.lock.
#
#   tests/integrations/django/versions.sh 4.2 [OPTION OF PYTEST...]
#                                     6.0    builds the package for Python 3.12, if it is not used
set -eu -o pipefail
cd "$(dirname "$0")/../../.."
version=$1 venv=.venv
shift

is_new() { # a Python
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2> /dev/null
}

if [ "$version" = 6.0 ] && ! is_new .venv/bin/python; then
    venv=target/django/venv
    for python in python3.{12,13,14} ~/.pyenv/versions/3.1[2-4]*/bin/python3 none; do
        is_new "$python" && break
    done
    if [ "$python" = none ]; then
        echo "Django 6.0 needs Python 3.12 or later" >&2
        exit 1
    fi
    mkdir -p target/django/bin
    ln -sfn "$(command -v "$python")" target/django/bin/python3
    PATH=$PWD/target/django/bin:$PATH make --no-print-directory build venv="$venv"
fi

# Found before the Django of the virtual environment.
overlay=target/django/$version
requirement=tests/integrations/django/suite/django-$version.txt
if ! cmp --silent "$requirement" "$overlay/installed"; then
    rm -rf "$overlay"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
        --target "$overlay" --requirement "$requirement"
    cp "$requirement" "$overlay/installed"
fi
PYTHONPATH=$PWD/$overlay exec "$venv/bin/pytest" -p no:cacheprovider tests/integrations/django "$@"
