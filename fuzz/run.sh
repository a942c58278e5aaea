#!/bin/bash
# Builds the fuzz targets and runs each for the given number of seconds, from the seeds that are
# kept in fuzz/seeds. Works with the stable compiler: the coverage counters are LLVM's own pass, and
# no sanitizer is needed where all access to the file is in one module, which checks its bounds itself.
#
# What is found new is kept beside the build, and an input that fails is written to fuzz/failures
# and named. `fuzz/run.sh SECONDS TARGET` runs one target.
set -eu -o pipefail
seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET]}
cd "$(dirname "$0")"
targets=${2:-ops open_damaged}
build=${CARGO_TARGET_DIR:-../target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')

RUSTFLAGS="-C passes=sancov-module
    -C llvm-args=-sanitizer-coverage-level=4
    -C llvm-args=-sanitizer-coverage-inline-8bit-counters
    -C llvm-args=-sanitizer-coverage-pc-table
    -C llvm-args=-sanitizer-coverage-trace-compares
    -C codegen-units=1
    --cfg fuzzing" \
    cargo build --quiet --release --target "$host" --target-dir "$build"

for target in $targets; do
    found="$build/found/$target"
    mkdir -p "$found" failures
    log="$build/$target.log"
    echo "fuzz $target: $seconds seconds"
    if ! "$build/$host/release/$target" -max_total_time="$seconds" -timeout=10 -max_len=2048 \
        -artifact_prefix="failures/$target-" -print_final_stats=1 "$found" "seeds/$target" \
        > "$log" 2>&1; then
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
