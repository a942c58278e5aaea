#!/bin/bash
# Runs the models of crates/engine/src/models.rs under loom, on the stable compiler: every
# interleaving with a limited number of forced switches, and every value that the memory model lets
# a load see. Prints one line of JSON on standard output, all else on standard error.
#
#   crates/engine/tests/models.sh [preemptions]     the models (default 2: seconds; 4: minutes)
#   crates/engine/tests/models.sh controls          builds that break one rule each: the model named
#                                                   for a build must fail on it
set -eu -o pipefail
cd "$(dirname "$0")/../../.."
export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}" CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target/loom}
export CARGO_PROFILE_CHECKED_DEBUG=0 RUST_BACKTRACE=0
command=(cargo test --quiet --profile checked -p tuckbox-engine --lib)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# mutant, model
mutants="
relaxed-slot         a_new_record_is_published_whole
no-busy              a_record_is_rewritten_in_place_beside_a_reader
no-acquire-fence     a_record_is_rewritten_in_place_beside_a_reader
early-split-clear    a_key_is_found_while_its_bucket_is_split
no-state-check       a_key_is_found_while_its_bucket_is_split
one-slot-load        a_segment_is_used_again_beside_a_reader
late-first-word      a_key_is_found_while_another_one_is_written_over_its_old_record
late-first-word      a_key_is_written_over_its_old_record_beside_a_reader
no-taker-fence       a_segment_is_taken_by_another_process_beside_a_reader
late-generation      a_segment_is_taken_by_another_process_beside_a_reader
no-second-look       a_free_segment_is_found_however_taking_and_freeing_meet
no-epoch-check       a_clear_beside_a_reader
late-changes         a_kept_proof_beside_a_writer
proof-while-held     a_kept_proof_beside_a_writer
relaxed-unlock       a_lock_has_one_owner_and_every_sleeper_wakes
one-sleeper          a_lock_has_one_owner_and_every_sleeper_wakes
no-maker-wake        every_waiter_for_a_maker_wakes
steal                a_dead_owners_lock_is_taken_over_by_one
rescue-by-store      an_abandoned_segment_is_rescued_once
"

json() { # run, good, trials, trial, failures (a JSON list), figures
    printf '{"run": "%s", "good": %s, "trials": %s, "trial": "%s", "seed": null, "failures": %s%s}\n' "$@"
}

if [ "${1:-}" = controls ]; then
    caught=0 failures=""
    while read -r mutant model; do
        [ -n "$mutant" ] || continue
        if ! grep -rq "mutants::is_on(\"$mutant\")" crates/arena/src crates/engine/src; then
            echo "no rule is called $mutant" >&2
            exit 2
        fi
        if TUCKBOX_MUTANT=$mutant LOOM_MAX_PREEMPTIONS=2 "${command[@]}" --features mutants -- "models::$model" \
            > "$log" 2>&1; then
            echo "mutant $mutant ESCAPED $model" >&2
            failures+="${failures:+, }\"$mutant escaped $model\""
        elif grep -q "^thread 'models::$model'.* panicked at" "$log"; then
            # The last panic counts, except for those that a deadlock causes in other threads.
            why=$(grep -A 1 "^thread 'models::$model'.* panicked at" "$log" |
                grep -v "^--$\|^thread '\|on a .None. value\|in a destructor" | tail -1)
            echo "mutant $mutant is caught by $model: $why" >&2
            caught=$((caught + 1))
        else
            cat "$log" >&2
            echo "mutant $mutant: $model was not judged" >&2
            exit 2
        fi
    done <<< "$mutants"
    good=$([ -z "$failures" ] && echo true || echo false)
    json "models controls" "$good" "$caught" "broken builds that were caught" "[$failures]" ""
    [ "$good" = true ]
    exit
fi

export LOOM_MAX_PREEMPTIONS=${1:-2}
status=0
"${command[@]}" -- --nocapture models:: > "$log" 2>&1 || status=$?
cat "$log" >&2
count=$(grep -c 'interleavings in' "$log" || true)
tries=$(($(sed -n 's/.*model [a-z ]*: \([0-9]*\) interleavings.*/\1/p' "$log" | paste -sd+)))
failures=$(sed -n "s/^thread '\(models::[a-z_]*\)'.*panicked.*/\"\1 failed\"/p" "$log" | paste -sd,)
[ "$status" = 0 ] || [ -n "$failures" ] || failures='"the models did not run"'
good=$([ "$status" = 0 ] && [ "$count" -ge 15 ] && echo true || echo false)
json "models" "$good" "${tries:-0}" "interleavings" "[$failures]" \
    ", \"models\": $count, \"preemptions\": $LOOM_MAX_PREEMPTIONS"
[ "$good" = true ]
