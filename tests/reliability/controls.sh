#!/bin/bash
# Negative controls of the families of leases and invalidation: runs their tests on extensions that
# each break one rule of the engine, and demands that they fail.
#
#   tests/reliability/controls.sh [python]
set -eu -o pipefail
cd "$(dirname "$0")/../.."
python=$(realpath -s "${1:-.venv/bin/python}")
target=target/controls
package=$target/package/tuckbox

PYO3_PYTHON=$python cargo build --quiet --release -p tuckbox-python \
    --features pyo3/extension-module,hooks,mutants --target-dir "$target"
rm -rf "$package"
mkdir -p "$target/package"
cp -r python/tuckbox "$package"
rm -f "$package"/*.so
cp "$target/release/lib_engine.so" "$package/_engine.abi3.so"

control() { # mutant, tests
    local mutant=$1 log=$target/$1.log test=${2#*::} status=0
    shift
    if [ "$mutant" != none ] && ! grep -rq "is_on(\"$mutant\")" crates/arena/src crates/engine/src; then
        echo "no rule is called $mutant"
        return 1
    fi
    TUCKBOX_MUTANT=$mutant PYTHONPATH=$target/package timeout 180 "$(dirname "$python")/pytest" -q -x \
        -p no:cacheprovider "${@/#/tests/reliability/}" > "$log" 2>&1 || status=$?
    if [ "$mutant" = none ]; then
        [ $status = 0 ] && echo "passed without a broken rule" && return
        tail -n 30 "$log"
        echo "FAILED without a broken rule"
        return 1
    fi
    # A crash of pytest, or a test that is not there, is no failure of the test.
    if ! grep -q "^FAILED .*$test" "$log"; then
        echo "NOT CAUGHT: $mutant, by $test"
        return 1
    fi
    echo "caught: $mutant, by $test: $(grep -m 1 '^FAILED ' "$log" | cut -c 1-150)"
}
export -f control
export python target

stale=test_stale_stores.py::test_stale_values_are_refused_and_others_are_not
evicted=test_invalidations.py::test_nothing_evicted_returns
# `none` is no mutant: the unbroken engine must pass, so that each mutant is caught for the rule that
# it breaks. Two at a time: each runs for long in one process.
xargs -P 2 -d '\n' -I {} bash -c 'control {}' << END
none $stale ${evicted}_where_rows_are_shared
two-makers test_makers.py::test_one_of_a_hundred_makes
dead-makers-kept test_makers.py::test_makers_that_are_killed_at_any_moment
lease-of-parent test_makers.py::test_makers_that_fork
no-lease-counter $stale
no-lease-epoch $stale
no-lease-version $stale
no-lease-stamp $stale
full-rows-forget ${evicted}_where_rows_are_shared
END
