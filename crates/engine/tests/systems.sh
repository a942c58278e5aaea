#!/bin/bash
# Runs the tests of arena and engine on other processors and another C library. Installs what is
# missing and says so. Prints one line of JSON on standard output, all else on standard error.
#
#   crates/engine/tests/systems.sh musl      x86_64-unknown-linux-musl: what touches files, locks and
#                                            processes, and a short torture
#   crates/engine/tests/systems.sh portable  no assembly, no AES instructions (`--cfg portable`): the
#                                            copies, sums and comparisons of arena
#   crates/engine/tests/systems.sh x86-64    an x86-64 of 2003, without AES, emulated
#   crates/engine/tests/systems.sh aarch64   aarch64-unknown-linux-gnu, emulated, with AES
#                                            instructions and without
#
# A path of the content sum is broken if its run fails: every run compares with the same constants,
# reads the files in `golden`, and has its own files read by a native build.
set -eu -o pipefail
cd "$(dirname "$0")/../../.."
export CARGO_PROFILE_CHECKED_DEBUG=0 RUST_BACKTRACE=0
# A quick build rather than quick code, except for code that is emulated.
case "${1:-}" in musl | portable) export CARGO_PROFILE_CHECKED_OPT_LEVEL=1 ;; esac
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/systems
mkdir -p "$CARGO_TARGET_DIR"
target_dir=$(cd "$CARGO_TARGET_DIR" && pwd)
log=$(mktemp) made=$(mktemp -d)
trap 'rm -rf "$log" "$made"' EXIT

# Left out of all runs:
# - arena's unsafe_places and platform_seam, and engine's format: they read sources and documents.
# - tuckbox-python: it needs a Python interpreter of the other system.
# Left out of the musl run, for time, because nothing in them depends on the C library. aarch64 runs
# them:
# - all unit tests, batch, model, output_buffer, tiny, twin, versions: operations in memory.
# - of protocol, damage and smoke, the tests below: interleavings in memory, searches for damage, and
#   what is evicted.
musl_tests="forks_in_handlers lost_descriptors sum_path damage files golden power_cut protocol
    read_only smoke truncation"
musl_skips="a_reader_and_any_other_party an_unpublished_record a_check_leaves_nothing
    words_of_the_tables an_entry_that_was_just_stored"
# Left out of the emulated runs:
# - torture: it does not compile for aarch64 (it steps x86-64 by ptrace), and QEMU's user emulation
#   has no ptrace, as it has no namespaces that the emulated program could make.
# - nothing of arena, engine and testkit: forks, file locks and SIGBUS work there.
# Time limits of the tests, times this:
emulated_slowdown=20
# Runs without AES instructions repeat what computes or compares sums, without the unit tests of
# eviction and its policy.
sums="--lib --test sum_path --test batch --test damage --test golden --test output_buffer
    --test read_only --test smoke --test twin"

debian() { # a program, and the packages that it comes with
    command -v "$1" > /dev/null && return
    shift
    echo "installing $*" >&2
    local become
    become=$([ "$(id -u)" = 0 ] || echo sudo -n)
    { $become apt-get update -q || true; } >&2
    $become apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=600 "$@" >&2
}

target() { # name
    [ -d "$(rustc --print target-libdir --target "$1")" ] && return
    echo "installing Rust's library for $1" >&2
    rustup target add "$1" >&2
}

failures="" trials=0
# Runs a command, counts the tests that passed, and notes a failure.
run() { # what, command
    local what=$1 status=0 passed
    shift
    echo "-- $what" >&2
    "$@" 2>&1 | tee "$log" >&2 || status=$?
    passed=$(($(sed -n 's/^test result: [a-zA-Z]*\. \([0-9]*\) passed.*/\1/p' "$log" | paste -sd+ | sed 's/^$/0/')))
    trials=$((trials + passed))
    if [ "$status" != 0 ] || [ "$passed" = 0 ]; then
        failures+="${failures:+, }\"$what: $passed passed, exit status $status\""
    fi
}

# Makes the files of `golden.rs` with one build, and reads them with a native one.
exchange() { # what, command that runs golden.rs
    local what=$1 folder
    shift
    folder=$(mktemp -d -p "$made")
    TUCKBOX_GOLDEN=$folder run "$what writes files" "$@" --ignored
    cp crates/engine/tests/golden/layout-before-1-64k.tuck "$folder"
    TUCKBOX_GOLDEN=$folder run "x86-64 reads files of $what" cargo test --profile checked \
        -p tuckbox-engine --test golden
}

finish() { # run
    local good=false
    [ -n "$failures" ] || good=true
    printf '{"run": "%s", "good": %s, "trials": %s, "trial": "tests on other systems", "seed": null, "failures": [%s]}\n' \
        "$1" "$good" "$trials" "$failures"
    [ "$good" = true ]
}

# No skip is silent: the head of the log names what is left out, and why.
sed -n '/^# Left out of all runs/,/^# Time limits/{/^# Time limits/!p}' crates/engine/tests/systems.sh >&2

case "${1:-}" in
musl)
    target x86_64-unknown-linux-musl
    # One build for the tests and torture: other packages or features would build everything again.
    tests=""
    for test in $musl_tests controls; do tests+=" --test $test"; done
    # shellcheck disable=SC2086 # Several words.
    cargo test --no-run --profile checked --target x86_64-unknown-linux-musl -p tuckbox-arena \
        -p tuckbox-engine -p tuckbox-torture --features tuckbox-torture/points $tests 2>&1 | tee "$log" >&2
    built=$(sed -n 's/.*Executable .*(\(.*\))$/\1/p' "$log" | grep -v '/controls-')
    [ "$(wc -l <<< "$built")" = "$(wc -w <<< "$musl_tests")" ]
    skips=()
    for test in $musl_skips; do skips+=(--skip "$test"); done
    for program in $built; do
        run "$(basename "${program%-*}")" "$(realpath "$program")" "${skips[@]}"
    done
    # Processes that fork, are killed, grow the file and lose it.
    for trial in "fork --children 100 --seed 1" \
        "kill --processes 4 --kills 60 --kill-every-ms 0-5 --seed 1" \
        "reopen --seconds 1 --creators 20 --killed-creators 20" "cut --cases 12 --seed 1"; do
        echo "-- torture $trial" >&2
        # shellcheck disable=SC2086 # Several words.
        if "$target_dir/x86_64-unknown-linux-musl/checked/torture" $trial >&2; then
            trials=$((trials + 1))
        else
            failures+="${failures:+, }\"torture $trial\""
        fi
    done
    finish "musl"
    ;;
portable)
    RUSTFLAGS="--cfg portable" CARGO_TARGET_DIR=$target_dir/portable run "no assembly, no AES" \
        cargo test --profile checked -p tuckbox-arena --lib --test sum_path -- region:: sum products::
    finish "portable"
    ;;
x86-64)
    target x86_64-unknown-linux-musl
    debian qemu-x86_64 qemu-user
    export TUCKBOX_AES=no TUCKBOX_SLOWDOWN=$emulated_slowdown
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUNNER="qemu-x86_64 -cpu qemu64"
    command=(cargo test --profile checked --target x86_64-unknown-linux-musl
        -p tuckbox-arena -p tuckbox-engine)
    # shellcheck disable=SC2086 # Several words.
    run "x86-64 without AES" "${command[@]}" --no-fail-fast $sums -- --skip eviction:: --skip policy:: --skip policy::
    exchange "x86-64 without AES" "${command[@]}" --test golden --
    finish "x86-64 without AES"
    ;;
aarch64)
    target aarch64-unknown-linux-gnu
    debian aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    debian qemu-aarch64 qemu-user
    libraries=/usr/aarch64-linux-gnu/lib
    # The loader's path is in the programs. QEMU's option -L would also show them another `/`.
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C link-arg=-Wl,--dynamic-linker=$libraries/ld-linux-aarch64.so.1 -C link-arg=-Wl,-rpath,$libraries"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
    export TUCKBOX_AES=yes TUCKBOX_SLOWDOWN=$emulated_slowdown
    command=(cargo test --profile checked --target aarch64-unknown-linux-gnu
        -p tuckbox-arena -p tuckbox-engine -p tuckbox-testkit --features tuckbox-engine/hooks)
    run "aarch64" "${command[@]}" --no-fail-fast --lib --tests -- \
        --skip unsafe_code_is --skip linux_is_known --skip names_of_a_system \
        --skip the_document_and_the_code_agree
    exchange "aarch64" "${command[@]}" --test golden --
    # No processor of QEMU lacks AES, so the C library is made to say so: bit 3 of AT_HWCAP.
    cat > "$made/no-aes.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/auxv.h>
unsigned long getauxval(unsigned long kind) {
    unsigned long (*real)(unsigned long) = dlsym(RTLD_NEXT, "getauxval");
    return real(kind) & ~(kind == AT_HWCAP ? 1ul << 3 : 0);
}
C
    aarch64-linux-gnu-gcc -shared -fPIC -o "$made/no-aes.so" "$made/no-aes.c"
    export TUCKBOX_AES=no
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -E LD_PRELOAD=$made/no-aes.so"
    # shellcheck disable=SC2086 # Several words.
    run "aarch64 without AES" "${command[@]}" --no-fail-fast $sums -- --skip eviction:: --skip policy:: --skip policy::
    exchange "aarch64 without AES" "${command[@]}" --test golden --
    finish "aarch64"
    ;;
*)
    sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
