#!/bin/bash
# Builds the fuzz targets and runs them from the seeds in fuzz/seeds.
#
#   fuzz/run.sh fixed [TARGET]             runs the same inputs every time: the step of `make test`
#   fuzz/run.sh random SECONDS [TARGET]    searches at random, also from inputs of earlier searches
#
# A failing input is written to fuzz/failures, and its name is printed. Inputs that a search finds are
# kept in the build directory. Works with the stable compiler: the coverage counters come from an LLVM
# pass, and no sanitizer is needed because one module checks the bounds of all accesses to the file.
set -eu -o pipefail
lane=${1-}
case $lane:$# in
    fixed:[12]) seconds="" && shift ;;
    random:[23]) seconds=$2 && shift 2 ;;
    *) echo "usage: fuzz/run.sh fixed [TARGET] | fuzz/run.sh random SECONDS [TARGET]" >&2 && exit 2 ;;
esac
# The order of seeds/*.
export LC_ALL=C
cd "$(dirname "$0")"
targets=${1:-ops open_damaged}
build=${CARGO_TARGET_DIR:-../target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')

# Inputs that the fixed lane runs: about 15 seconds for each target.
declare -A runs=([ops]=30000 [open_damaged]=5000)

RUSTFLAGS="-C passes=sancov-module
    -C llvm-args=-sanitizer-coverage-level=4
    -C llvm-args=-sanitizer-coverage-inline-8bit-counters
    -C llvm-args=-sanitizer-coverage-pc-table
    -C llvm-args=-sanitizer-coverage-trace-compares
    -C codegen-units=1
    --cfg fuzzing" \
    cargo build --quiet --release --target "$host" --target-dir "$build"

for target in $targets; do
    mkdir -p failures
    log="$build/$target.log"
    if [ "$lane" = fixed ]; then
        echo "fuzz $target: ${runs[$target]} inputs"
        # The files by name, not in a directory's order. New inputs are judged only by the branches
        # that they reach: values that are compared (process ids, addresses) and how often a branch
        # is taken (digits of a time) differ from run to run.
        seeds=$(printf '%s,' "seeds/$target"/*)
        arguments=(-seed=1 "-runs=${runs[$target]}" "-seed_inputs=${seeds%,}" -shuffle=0
            -use_cmp=0 -use_counters=0)
    else
        echo "fuzz $target: $seconds seconds"
        found="$build/found/$target"
        mkdir -p "$found"
        arguments=("-max_total_time=$seconds" "$found" "seeds/$target")
    fi
    if ! "$build/$host/release/$target" -max_len=2048 -timeout=60 -artifact_prefix="failures/$target-" \
        -print_final_stats=1 "${arguments[@]}" > "$log" 2>&1; then
        tail -n 60 "$log" >&2
        echo "fuzz $target: failed; the input is in fuzz/failures" >&2
        exit 1
    fi
    # Without coverage the fuzzer would only guess: that would be no test.
    if ! grep -q 'Loaded .* modules .*inline 8-bit counters' "$log" || ! grep -q 'cov: [0-9]\{3,\}' "$log"; then
        cat "$log" >&2
        echo "fuzz $target: the coverage counters are not active" >&2
        exit 1
    fi
    grep -E '^#[0-9]+\s+DONE|stat::number_of_executed_units' "$log"
done
rmdir failures 2> /dev/null || true
