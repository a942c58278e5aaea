#!/bin/sh
# Negative controls: builds the torture on engines that each break one promise, and demands that the
# torture notices. A run that passes on a broken engine would show nothing on a sound one.
#
#   crates/torture/controls.sh [target directory]
set -u
cd "$(dirname "$0")/../.." || exit 2
target=${1:-target/controls}
failed=0

control() {
    mutant=$1
    shift
    cargo build --quiet --release -p tuckbox-torture --features "points,$mutant" \
        --target-dir "$target" || exit 2
    RUST_BACKTRACE=0 timeout 180 "$target/release/torture" "$@" >"$target/$mutant.json" \
        2>"$target/$mutant.log"
    status=$?
    # 1: it judged so. 2: its watchdog did. Anything else is no judgement.
    if [ $status -eq 1 ] || [ $status -eq 2 ]; then
        echo "caught: $mutant, by torture $*: $(grep -m 1 -E 'FAILED: |watchdog' "$target/$mutant.log")"
    else
        echo "NOT CAUGHT: $mutant, by torture $* (status $status)"
        failed=1
    fi
}

control mutant-no-repair kill --processes 4 --seconds 10 --die-one-in 300 --kill-every-ms 200
control mutant-old-length stop --deed kill --point BodyAdopted --rounds 5
control mutant-no-takeover kill --processes 4 --seconds 10 --die-one-in 300 --kill-every-ms 200
control mutant-steal stop --deed stop --point RewriteHalf
control mutant-no-repair step --operations set-same,set-new --states half
control mutant-no-repair matrix --operations set-same,set-new --states half
control mutant-early-publication step --operations set-new,add --states empty
control mutant-early-intent-clear repair --operations incr
control mutant-ignored-error calls --scenarios create --one-in 2
control mutant-doubt-is-death calls --scenarios waiter --one-in 4
control mutant-no-guard cut --cases 24
control mutant-no-look cut --cases 48
control mutant-aborting-buffers allocations
control mutant-no-takeover allocations
control mutant-token-inherited fork --children 50
control mutant-slots-kept reopen --seconds 5 --creators 10 --killed-creators 10
control mutant-no-checksum damage --cases 30000 --large 200
control mutant-no-checksum scribble --seconds 8 --words-per-ms 100
control mutant-no-checksum pages --images 300
control mutant-no-bounds damage --cases 30000 --large 200
control mutant-no-hops damage --cases 100 --large 0 --use-one-in 1
control mutant-pid-alone namespaces --kills 60
control mutant-sparse reopen --seconds 1 --creators 4 --killed-creators 4

exit $failed
