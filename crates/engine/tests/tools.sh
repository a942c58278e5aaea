#!/bin/bash
# What needs more than the stable compiler: checkers of the memory model and of threads, and the
# tests of the tests. Installs what is missing, and says so. One line of JSON on the standard
# output, all else on the standard error.
#
#   crates/engine/tests/tools.sh miri [seeds]       the engine in plain memory under Miri, by so many
#                                                   orders of its threads (4 unless told)
#   crates/engine/tests/tools.sh tsan [rounds]      the same threads under the thread sanitizer
#   crates/engine/tests/tools.sh controls           a region that breaks the rules: both must notice
#   crates/engine/tests/tools.sh coverage           lines and branches that the engine's tests reach
#   crates/engine/tests/tools.sh mutants [i/n]      changes to locks, segments, seats and repair: how
#                                                   many the tests notice; one part of n
set -eu -o pipefail
cd "$(dirname "$0")/../../.."
nightly=${NIGHTLY:-nightly}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

json() { # run, good, trials, trial, failures (a JSON list), figures
    printf '{"run": "%s", "good": %s, "trials": %s, "trial": "%s", "seed": null, "failures": %s%s}\n' "$@"
}

component() { # names
    if ! rustup component list --toolchain "$nightly" --installed 2> /dev/null > "$log" ||
        ! for name in "$@"; do grep -q "^${name%-preview}" "$log" || exit 1; done; then
        echo "installing $* for the toolchain $nightly" >&2
        rustup toolchain install "$nightly" --profile minimal --component "$(IFS=,; echo "$*")" >&2
    fi
}

subcommand() { # name
    if ! cargo "$1" --version > /dev/null 2>&1; then
        echo "installing cargo-$1" >&2
        cargo install --locked "cargo-$1" >&2
    fi
}

# Counts passed tests in the log, and judges by the status of what wrote it.
judge() { # run, status, trial, figures
    local passed failures=""
    passed=$(($(sed -n 's/^test result: [a-zA-Z]*\. \([0-9]*\) passed.*/\1/p' "$log" | paste -sd+ | sed 's/^$/0/')))
    if [ "$2" != 0 ] || [ "$passed" = 0 ]; then
        failures=$(grep -m 3 -E '^error: |WARNING: ThreadSanitizer|panicked at' "$log" |
            sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&"/' | paste -sd, || true)
        failures=${failures:-'"it did not run"'}
    fi
    json "$1" "$([ -z "$failures" ] && echo true || echo false)" "$passed" "$3" "[$failures]" "$4"
    [ -z "$failures" ]
}

run_miri() { # seeds, further arguments
    component miri rust-src
    local seeds=$1
    shift
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-many-seeds=0..$seeds -Zmiri-many-seeds-keep-going" \
        CARGO_TARGET_DIR=target/miri cargo "+$nightly" miri test "$@" > "$log" 2>&1
}

run_tsan() { # rounds, further arguments
    component rust-src
    local rounds=$1
    shift
    TWIN_ROUNDS=$rounds TSAN_OPTIONS="halt_on_error=1 exitcode=66" \
        RUSTFLAGS="-Zsanitizer=thread --cfg tsan" CARGO_TARGET_DIR=target/tsan \
        cargo "+$nightly" test -Zbuild-std --target x86_64-unknown-linux-gnu --profile checked "$@" \
        > "$log" 2>&1
}

case "${1:-}" in
miri)
    seeds=${2:-4} status=0
    run_miri 1 -p tuckbox-arena --lib -- region:: segments:: process::tests::an_owner || status=$?
    cat "$log" >&2
    cp "$log" "$log.arena"
    [ "$status" != 0 ] || run_miri "$seeds" -p tuckbox-engine --test twin || status=$?
    cat "$log" >&2
    cat "$log.arena" >> "$log"
    rm -f "$log.arena"
    judge "miri" "$status" "tests under Miri" ", \"thread_orders\": $seeds"
    ;;
tsan)
    status=0
    run_tsan "${2:-2000}" -p tuckbox-engine --test twin || status=$?
    cat "$log" >&2
    judge "thread sanitizer" "$status" "tests under the thread sanitizer" ", \"rounds\": ${2:-2000}"
    ;;
controls)
    failures="" caught=0
    # Both must see plain writes to shared words, and Miri an access that is out of bounds, too.
    for mutant in plain-words; do
        if TUCKBOX_MUTANT=$mutant run_miri 1 -p tuckbox-engine --features mutants --test twin -- threads_as; then
            failures+="\"mutant $mutant escaped Miri\", "
        elif grep -q 'Data race detected' "$log"; then
            echo "mutant $mutant is caught by Miri" >&2
            caught=$((caught + 1))
        else
            cat "$log" >&2
            exit 2
        fi
        if TUCKBOX_MUTANT=$mutant run_tsan 2000 -p tuckbox-engine --features mutants --test twin -- threads_as; then
            failures+="\"mutant $mutant escaped the thread sanitizer\", "
        elif grep -q 'ThreadSanitizer: data race' "$log"; then
            echo "mutant $mutant is caught by the thread sanitizer" >&2
            caught=$((caught + 1))
        else
            cat "$log" >&2
            exit 2
        fi
    done
    json "tools controls" "$([ -z "$failures" ] && echo true || echo false)" "$caught" \
        "broken builds that were caught" "[${failures%, }]" ""
    [ -z "$failures" ]
    ;;
coverage)
    component llvm-tools
    subcommand llvm-cov
    status=0
    command=(cargo "+$nightly" llvm-cov --branch --profile checked -p tuckbox-arena -p tuckbox-engine)
    export CARGO_TARGET_DIR=target/coverage
    "${command[@]}" --no-report > "$log" 2>&1 || status=$?
    "${command[@]}" --no-report --no-clean --features tuckbox-engine/hooks --test protocol \
        >> "$log" 2>&1 || status=$?
    tail -40 "$log" >&2
    cargo "+$nightly" llvm-cov report --profile checked --json --summary-only > "$log.json"
    figures=$(python3 - "$log.json" <<'PYTHON'
import json, sys
totals = {"lines": [0, 0], "branches": [0, 0]}
for file in json.load(open(sys.argv[1]))["data"][0]["files"]:
    if "/crates/arena/src/" in file["filename"] or "/crates/engine/src/" in file["filename"]:
        line = file["summary"]["lines"]["percent"], file["summary"]["branches"]["percent"]
        print(f"{line[0]:6.1f} {line[1]:6.1f}  {file['filename']}", file=sys.stderr)
        for kind, total in totals.items():
            total[0] += file["summary"][kind]["covered"]
            total[1] += file["summary"][kind]["count"]
percent = {kind: 100 * covered / count for kind, (covered, count) in totals.items()}
print(f', "line_coverage_percent": {percent["lines"]:.1f}, '
      f'"branch_coverage_percent": {percent["branches"]:.1f}')
PYTHON
    )
    rm -f "$log.json"
    judge "coverage" "$status" "tests whose reach was measured" "$figures"
    ;;
mutants)
    subcommand mutants
    # The fast tests: what takes minutes would be tried for each of some hundred changes.
    status=0
    rm -rf target/mutants
    cargo mutants --package tuckbox-arena --package tuckbox-engine --test-workspace=true \
        --file 'crates/arena/src/lock.rs' --file 'crates/arena/src/segments.rs' \
        --file 'crates/arena/src/region.rs' --file 'crates/arena/src/process.rs' \
        --file 'crates/engine/src/audit.rs' --shard "${2:-0/8}" --sharding round-robin \
        --jobs 1 --timeout 90 --build-timeout 300 --profile checked --output target/mutants \
        --baseline skip --copy-target false --no-shuffle --colors never --caught \
        -- --package tuckbox-arena --package tuckbox-engine --features tuckbox-engine/hooks \
        --lib --test protocol --test twin --test smoke --test damage > "$log" 2>&1 || status=$?
    cat "$log" >&2
    count() { wc -l < "target/mutants/mutants.out/$1.txt"; }
    caught=$(($(count caught) + $(count timeout))) missed=$(count missed)
    failures=""
    [ $((caught + missed)) -gt 0 ] || failures='"no change was tried"'
    percent=$((100 * caught / (caught + missed > 0 ? caught + missed : 1)))
    sed 's/^/missed: /' target/mutants/mutants.out/missed.txt >&2
    json "mutants" "$([ -z "$failures" ] && echo true || echo false)" "$((caught + missed))" \
        "changes that were tried" "[$failures]" \
        ", \"mutants_caught_percent\": $percent, \"missed\": $missed"
    [ -z "$failures" ]
    ;;
*)
    sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
