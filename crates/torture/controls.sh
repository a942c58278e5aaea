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

# `sound`: the unbroken engine must pass, so that each mutant is caught for the rule that it breaks.
controls='
sound step --operations set-same,set-new --states half --seed 1
sound cut --cases 24 --seed 1
sound resize --kills 30 --seed 1
sound damage --cases 3000 --large 50
control no-repair kill --processes 4 --seconds 10 --die-one-in 300 --kill-every-ms 200 --seed 1
control eviction-forgotten kill --processes 4 --seconds 5 --seed 1
control old-length stop --deed kill --point BodyAdopted --rounds 100 --seed 1
control no-takeover stop --deed kill --point RewriteHalf --seed 1
control steal stop --deed stop --point RewriteHalf --seed 1
control no-repair step --operations set-same,set-new --states half --seed 1
control no-repair matrix --operations set-same,set-new --states half
control early-publication step --operations set-new,add --states empty --seed 1
control early-intent-clear repair --operations incr
control ignored-error calls --scenarios create --seed 1
control doubt-is-death calls --scenarios waiter --one-in 4 --seed 1
control no-guard cut --cases 24 --seed 1
control no-look cut --cases 48 --seed 1
control unlocked-copy resize --kills 60 --seed 1
control not-hidden resize --kills 60 --seed 1
control kept-hidden resize --kills 60 --seed 1
control aborting-buffers allocations
control no-takeover allocations
control lock-inherited fork --children 50 --seed 1
control slots-kept reopen --seconds 5 --creators 10 --killed-creators 10
control no-checksum damage --cases 30000 --large 200
control no-checksum scribble --seconds 8 --words-per-ms 100
control no-checksum pages --images 300
control counting-stamps pages --images 300
control early-name pages --images 1
control mark-not-synced pages --images 1
control clean-not-synced pages --images 1
control no-bounds damage --cases 30000 --large 200
control no-hops damage --cases 100 --large 0 --use-one-in 1 --seconds-each 10
control pid-alone namespaces --kills 60
control sparse reopen --seconds 1 --creators 4 --killed-creators 4
'

sound() { # arguments of torture
    if ! timeout 1200 "$target/release/torture" "$@" > "$target/sound-$1.json" 2> "$target/sound-$1.log"; then
        echo "FAILED without a broken rule: torture $*"
        return 1
    fi
}

control() { # mutant, arguments of torture
    local mutant=$1 log="$target/$1-$2" status=0
    shift
    if ! grep -rq "mutants::is_on(\"$mutant\")" crates/arena/src crates/engine/src; then
        echo "no rule is called $mutant"
        return 1
    fi
    TUCKBOX_MUTANT=$mutant timeout 1200 "$target/release/torture" "$@" > "$log.json" 2> "$log.log" || status=$?
    # 1: torture found a failure. 2: its watchdog did. Anything else is a crash or a pass.
    if [ $status != 1 ] && [ $status != 2 ]; then
        echo "NOT CAUGHT: $mutant, by torture $* (status $status)"
        return 1
    fi
    echo "caught: $mutant, by torture $*: $(grep -m 1 -E 'FAILED: |watchdog' "$log.log")"
}
export -f sound control

# Two at a time: most wait for a clock or for one process.
sed '/^$/d' <<< "$controls" | xargs -P 2 -d '\n' -I {} bash -c '{}'
