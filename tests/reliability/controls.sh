#!/bin/bash
# Negative controls of the families of leases, invalidation and kept objects: runs their tests on
# extensions that each break one rule of the engine, and demands that they fail.
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

run() { # mutant, tests
    local mutant=$1
    shift
    TUCKBOX_MUTANT=$mutant PYTHONPATH=$target/package timeout 1200 "$(dirname "$python")/pytest" -q -x \
        -p no:cacheprovider "${@/#/tests/reliability/}" > "$target/$mutant.log" 2>&1
}
sound() { # tests
    if ! run none "$@"; then
        tail -n 30 "$target/none.log"
        echo "FAILED without a broken rule"
        return 1
    fi
}
control() { # mutant, test
    local mutant=$1 test=$2
    if ! grep -rq "\"$mutant\")" crates/arena/src crates/engine/src; then
        echo "no rule is called $mutant"
        return 1
    fi
    # A crash of pytest, or a test that is not there, is no failure of the test.
    if run "$mutant" "$test" || ! grep -q "^FAILED .*${test#*::}" "$target/$mutant.log"; then
        echo "NOT CAUGHT: $mutant, by $test"
        return 1
    fi
    echo "caught: $mutant, by $test: $(grep -m 1 '^FAILED ' "$target/$mutant.log" | cut -c 1-150)"
}
export -f run sound control
export python target

stale=test_stale_stores.py::test_stale_values_are_refused_and_others_are_not
evicted=test_invalidations.py::test_nothing_evicted_returns
kept=test_kept_objects.py::test_no_kept_object_is_returned_that_is_not_current
# `sound`: the unbroken engine must pass, so that each mutant is caught for the rule that it breaks.
# Two at a time: each runs for long in one process.
xargs -P 2 -d '\n' -I {} bash -c '{}' << END
sound $stale ${evicted}_where_rows_are_shared $kept
control two-makers test_makers.py::test_one_of_a_hundred_makes
control dead-makers-kept test_makers.py::test_makers_that_are_killed_at_any_moment
control lease-of-parent test_makers.py::test_makers_that_fork
control no-lease-counter $stale
control no-lease-epoch $stale
control no-lease-version $stale
control no-lease-stamp $stale
control full-rows-forget ${evicted}_where_rows_are_shared
control proof-without-epoch $kept
control proof-without-sequence $kept
control proof-without-clock $kept
control proof-without-rows $kept
END
