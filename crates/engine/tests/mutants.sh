#!/bin/bash
# Tests the tests: for each mutant, a build that breaks one rule of docs/explanation/concurrency.md,
# runs the test that must fail on it. Succeeds only if each of these tests catches its mutant.
# Prints one line of JSON on standard output, all else on standard error.
set -eu -o pipefail
cd "$(dirname "$0")/../../.."

# mutant, test file (of the engine, or arena:file; lib for a test in the source), test
mutants="
one-slot-load       protocol  an_unpublished_record_is_not_read_by_a_reader_with_an_old_slot
no-generation       protocol  no_place_is_used_that_holds_something_else
late-first-word     protocol  a_key_is_found_whose_old_place_has_another_keys_record
place-of-another    lib       two_that_know_the_same_place_do_not_both_use_it
older-places        lib       values_of_other_lengths_get_places_that_are_young_enough
place-behind-tail   protocol  no_place_is_used_that_holds_something_else
no-state-check      protocol  a_reader_and_any_other_party_in_any_order
proof-without-slot  protocol  a_proof_holds_while_a_change_is_between_its_steps_only_for_what_is_there
proof-without-epoch protocol  a_proof_that_holds_is_of_the_entry_that_is_there
proof-without-sequence protocol a_proof_that_holds_is_of_the_entry_that_is_there
proof-without-clock protocol  a_proof_ends_with_the_time_to_live
proof-without-rows  protocol  a_proof_that_holds_is_of_the_entry_that_is_there
late-changes        protocol  a_proof_holds_while_a_change_is_between_its_steps_only_for_what_is_there
early-publication   protocol  a_reader_between_the_steps_of_a_writer_finds_everything
early-split-clear   protocol  a_reader_between_the_steps_of_a_writer_finds_everything
eager-unlock        protocol  a_failed_try_lock_leaves_the_lock_to_its_owner
no-handover         protocol  a_lock_that_was_taken_over_is_held_until_the_write_ends
no-busy             protocol  a_death_anywhere_costs_at_most_the_entry_being_written
no-repair           protocol  a_death_anywhere_costs_at_most_the_entry_being_written
old-length          protocol  segments_that_a_dead_writer_took_after_growth_are_found
no-lease-counter    leases    a_value_is_refused_after_its_key_was_invalidated
no-lease-epoch      leases    a_value_is_refused_after_its_key_was_invalidated
no-lease-version    leases    a_value_is_refused_after_its_key_was_invalidated
two-makers          leases    one_maker_at_a_time
dead-makers-kept    leases    the_lease_of_a_dead_maker_is_free
lease-of-parent     leases    a_forked_child_has_no_lease_of_its_parent
no-checksum         damage    sampled_bytes_of_the_pool
no-loss             damage    lost_entries_are_reported_and_counted
other-tag           golden    files_of_this_format_are_read_exactly
stamps-ahead        resize    a_read_whose_memory_is_given_back_before_it_looks_at_the_tags_is_a_miss
counting-stamps     power_cut evicting_a_tag_works_after_a_cut_that_set_the_stamp_clock_back
full-rows-forget    tags      more_tags_than_rows_invalidate_too_much_and_never_too_little
unlocked-eviction   resize    an_eviction_during_the_copy_holds_in_the_new_file
shared-eras-kept    resize    an_era_is_that_of_before_or_a_new_one
no-lease-stamp      leases    a_value_is_stored_unless_a_request_made_it_too_old
lost-slot-kept      truncation nor_after_noticing_the_truncation
slot-not-shared     arena:shared_slots a_handle_that_is_closed_leaves_the_locks_of_the_others
position-renewed    order     an_iteration_follows_the_order_of_insertion
counting-positions  order     positions_grow_whatever_a_power_cut_brings_back
dead-segments-stay  dead_segments values_of_other_lengths_take_the_space_of_those_before
live-at-beginning   dead_segments records_that_cross_segments_keep_all_of_them
gate-unheeded       gate      a_change_passes_only_an_open_gate_that_was_not_closed_since
gate-weighs-last    gate      a_death_in_a_change_is_counted_until_the_weight_is_replaced
gate-without-locks  gate      who_closes_the_gate_waits_for_the_changes_that_have_passed
follow              files     a_link_in_place_of_the_file_is_not_followed
"

# A quick build rather than quick code: each test runs once.
export CARGO_PROFILE_CHECKED_DEBUG=0 CARGO_PROFILE_CHECKED_OPT_LEVEL=1
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export logs

# Builds a package's test files, and prints a line for each: the file as named above, its program.
build() { # package, prefix of its files' names, files
    local package=$1 prefix=$2 selection=()
    shift 2
    for file; do
        if [ "$file" = lib ]; then selection+=(--lib); else selection+=(--test "$file"); fi
    done
    cargo test --color never --no-run --profile checked -p "$package" --features hooks,mutants "${selection[@]}" \
        2>&1 | tee "$logs/build" >&2
    sed -nE "s#^ *Executable unittests .*\\((.*)\\)\$#${prefix}lib \\1#p
        s#^ *Executable tests/([a-z_]+)(/main)?\\.rs \\((.*)\\)\$#$prefix\\1 \\3#p" "$logs/build" |
        while read -r file program; do echo "$file $(realpath "$program")"; done
}
files=$(awk 'NF { print $2 }' <<< "$mutants" | sort -u)
{
    # shellcheck disable=SC2046 # Several words.
    build tuckbox-arena arena: $(sed -n s/^arena://p <<< "$files")
    # shellcheck disable=SC2046
    build tuckbox-engine "" $(grep -v ^arena: <<< "$files")
} > "$logs/programs"

# Exits with 1 if the test does not catch the mutant, and with 255 if that cannot be said. `none`
# breaks nothing: the test must pass, so that each mutant is caught for the rule that it breaks.
try() { # mutant, test file, test
    local mutant=$1 file=$2 test=$3 program package=engine log="$logs/$1-$3" passes=false
    case $file in arena:*) package=arena ;; esac
    if [ "$mutant" != none ] && ! grep -rq "\"$mutant\")" crates/arena/src crates/engine/src; then
        echo "no rule is called $mutant" >&2
        return 255
    fi
    program=$(sed -n "s/^$file //p" "$logs/programs")
    # As cargo does, from the package's folder.
    if (cd "crates/$package" && TUCKBOX_MUTANT=$mutant RUST_BACKTRACE=0 "$program" --quiet "$test") > "$log" 2>&1; then
        passes=true
    fi
    if [ $passes = false ] && ! grep -q "$test" "$log"; then
        cat "$log" >&2
        echo "mutant $mutant: $test was not run" >&2
        return 255
    elif [ $mutant = none ] && [ $passes = false ]; then
        cat "$log" >&2
        echo "$test fails without a broken rule" >&2
        return 255
    elif [ $mutant = none ]; then
        return 0
    elif [ $passes = true ]; then
        echo "mutant $mutant ESCAPED $test" >&2
        echo "\"$mutant escaped $test\"" >> "$logs/failures"
        return 1
    fi
    echo "mutant $mutant is caught by $test" >&2
    echo "$mutant" >> "$logs/caught"
}
export -f try

# Two at a time.
touch "$logs/failures" "$logs/caught"
mutants=$(sed '/^$/d' <<< "$mutants")
status=0
{ awk '{ print "none", $2, $3 }' <<< "$mutants" | sort -u && echo "$mutants"; } |
    xargs -P 2 -L 1 bash -c 'try "$@"' try || status=$?
caught=$(wc -l < "$logs/caught") escaped=$(wc -l < "$logs/failures") failures=$(paste -sd, "$logs/failures")
# 123: some have escaped. More: xargs stopped at one that could not be judged.
if [ $((caught + escaped)) != "$(wc -l <<< "$mutants")" ] || { [ $status != 0 ] && [ $status != 123 ]; }; then
    echo "$caught mutants were caught, $escaped escaped, and others were not judged" >&2
    exit 1
fi
good=$([ -z "$failures" ] && echo true || echo false)
printf '{"run": "mutants", "good": %s, "trials": %s, "trial": "broken rules", "failures": [%s]}\n' \
    "$good" "$caught" "$failures"
[ "$good" = true ]
