#!/bin/bash
# Negative controls: runs torture on engines that each break one promise, and demands that torture
# notices. A run that passes on a broken engine would show nothing on a sound one.
#
#   crates/torture/controls.sh [target directory]
set -u
cd "$(dirname "$0")/../.." || exit 2
export target=${1:-target/controls} RUST_BACKTRACE=0

cargo build --quiet --release -p tuckbox-torture --features points,mutants \
    --target-dir "$target" || exit 2

# `none` is no mutant: the unbroken engine must pass, so that each mutant is caught for the rule that
# it breaks.
controls='
none step --operations set-same,set-new --states half
none cut --cases 24
none resize --kills 30
none damage --cases 3000 --large 50
no-repair kill --processes 4 --seconds 10 --die-one-in 300 --kill-every-ms 200
eviction-forgotten kill --processes 4 --seconds 5
old-length stop --deed kill --point BodyAdopted --rounds 100
no-takeover stop --deed kill --point RewriteHalf
steal stop --deed stop --point RewriteHalf
no-repair step --operations set-same,set-new --states half
no-repair matrix --operations set-same,set-new --states half
early-publication step --operations set-new,add --states empty
early-intent-clear repair --operations incr
ignored-error calls --scenarios create
doubt-is-death calls --scenarios waiter --one-in 4
no-guard cut --cases 24
no-look cut --cases 48
unlocked-copy resize --kills 60
not-hidden resize --kills 60
kept-hidden resize --kills 60
aborting-buffers allocations
no-takeover allocations
lock-inherited fork --children 50
slots-kept reopen --seconds 5 --creators 10 --killed-creators 10
no-checksum damage --cases 30000 --large 200
no-checksum scribble --seconds 8 --words-per-ms 100
no-checksum pages --images 300
counting-stamps pages --images 300
early-name pages --images 1
mark-not-synced pages --images 1
clean-not-synced pages --images 1
no-bounds damage --cases 30000 --large 200
no-hops damage --cases 100 --large 0 --use-one-in 1 --seconds-each 10
pid-alone namespaces --kills 60
sparse reopen --seconds 1 --creators 4 --killed-creators 4
'

control() { # mutant, arguments of torture
    local mutant=$1 log="$target/$1-$2" status=0
    shift
    if [ "$mutant" != none ] && ! grep -rq "mutants::is_on(\"$mutant\")" crates/arena/src crates/engine/src; then
        echo "no rule is called $mutant"
        return 1
    fi
    TUCKBOX_MUTANT=$mutant timeout 180 "$target/release/torture" "$@" >"$log.json" 2>"$log.log" || status=$?
    # 1: torture found a failure. 2: its watchdog did. Anything else is a crash or a pass.
    case $mutant:$status in
        none:0) echo "passed without a broken rule: torture $*" ;;
        none:*)
            echo "FAILED without a broken rule: torture $* (status $status)"
            return 1
            ;;
        *:1 | *:2) echo "caught: $mutant, by torture $*: $(grep -m 1 -E 'FAILED: |watchdog' "$log.log")" ;;
        *)
            echo "NOT CAUGHT: $mutant, by torture $* (status $status)"
            return 1
            ;;
    esac
}
export -f control

# Two at a time: most wait for a clock or for one process.
sed '/^$/d' <<< "$controls" | xargs -P 2 -d '\n' -I {} bash -c 'control {}'
