<?php

declare(strict_types=1);

namespace Lab\Host;

/**
 * The knowledge of one worker about one store, which was opened empty, and the check of answers.
 *
 * Owns the rules of METHODOLOGY.md: which answer is wrong, which is stale, which miss is right. Must not
 * run while a clock runs, nor know which contestant answered.
 *
 * An answer is wrong unless it is, byte for byte, a value that some stream stores under this key. It is
 * also wrong if this worker has yet to store it, if a later phase stores it, or if this worker's set of it
 * was refused. It is stale if it was certainly overwritten or deleted before the get began. All workers
 * end a phase before any begins the next, and the order of one worker's own operations is known. So these
 * values are stale:
 * - a value of an earlier phase than the last one in which the key is known to have been written: this
 *   worker wrote or deleted it there, or saw a value of that phase;
 * - a value of this worker, older than its own last set or delete of the key;
 * - a value of another worker, older than one of the same worker that was seen before.
 * With one worker, only the value stored last is right. A delete that found nothing may have been a
 * refusal: the old value is still right, and so is a miss.
 *
 * An answer is first compared with the value stored or seen last, and looked up only if it differs.
 */
final class Verifier
{
    /** @var array<int, int> for each key: the sequence that was run or seen last */
    private array $latest = [];
    /** @var array<int, int> for each key: the size of the value with that sequence, none after a delete */
    private array $sizes = [];
    /**
     * For each key and stream number in its phase: the last sequence that certainly came before the next
     * get. Sequences rise for each worker, so those of an earlier phase are below those of a later one.
     *
     * @var array<int, int>
     */
    private array $newest = [];
    /** @var array<int, true> sequences of this worker's refused sets */
    private array $refused = [];
    /** @var array<int, true> keys that were set, refused or not, and not deleted since */
    private array $wanted = [];

    private Verdict $verdict;

    public function __construct(
        private readonly Phases $phases,
        private readonly Stored $stored,
        private readonly Values $values,
        private readonly Keys $keys,
        private readonly int $workers,
    ) {
        $this->verdict = new Verdict();
    }

    /**
     * Check the answers to a block in order, and learn from them.
     *
     * @param list<mixed> $answers
     * @param array<int, Tally>|null $tallies to count in, by verb; null during the warm-up
     */
    public function check(Block $block, array $answers, ?array $tallies): void
    {
        $own = $this->phases->ownNumber($block->phase);
        foreach ($answers as $index => $answer) {
            $key = $block->numbers[$index];
            $sequence = $block->base + $index;
            $absent = $wrong = false;
            switch ($block->verbs[$index]) {
                case Stream::GET:
                    $miss = $answer === null || $answer === false;
                    if ($miss) {
                        $absent = $this->isAbsent($block->phase, $key);
                    } else {
                        $wrong = $this->isWrong($block->phase, $sequence, $key, $answer);
                    }
                    break;
                case Stream::SET:
                    $miss = $answer === false;
                    $this->wanted[$key] = true;
                    if ($miss) {
                        $this->refused[$sequence] = true;
                    } else {
                        $this->see($key, $sequence, $own);
                        $this->sizes[$key] = $block->sizes[$index];
                    }
                    break;
                default:
                    $miss = !$answer;
                    unset($this->wanted[$key]);
                    if (!$miss) {
                        $this->see($key, $sequence, $own);
                        unset($this->sizes[$key]);
                    }
            }
            if ($tallies !== null) {
                $tally = $tallies[$block->verbs[$index]];
                $tally->count += 1;
                $tally->miss += (int) $miss;
                $tally->absent += (int) $absent;
                $tally->wrong += (int) $wrong;
            }
        }
    }

    /** The verdict since it was last taken. */
    public function takeVerdict(): Verdict
    {
        $verdict = $this->verdict;
        $this->verdict = new Verdict();
        return $verdict;
    }

    private function see(int $key, int $sequence, int $number): void
    {
        $this->latest[$key] = $sequence;
        $this->newest[$key * $this->phases->width + $number] = $sequence;
    }

    private function isAbsent(int $phase, int $key): bool
    {
        // It is unknown what other workers have stored so far, only what they ever store.
        return $this->workers > 1 ? !$this->stored->isStoredBy($phase, $key) : !isset($this->wanted[$key]);
    }

    /** Judge a value. Counts a stale value too, which is not wrong. */
    private function isWrong(int $phase, int $now, int $key, mixed $answer): bool
    {
        $size = $this->sizes[$key] ?? null;
        if ($size !== null && $this->values->matches($answer, $key, $this->latest[$key], $size)) {
            $this->verdict->weak += (int) $this->values->isWeak($answer);
            return false;
        }
        $found = $this->stored->find($key, $answer);
        if ($found === null) {
            return $this->wrong($key, 'a value of the type ' . get_debug_type($answer) . ', which was never stored');
        }
        if ($found === []) {
            return $this->wrong($key, $this->whose($answer));
        }
        $this->verdict->weak += (int) $this->values->isWeak($answer);
        $possible = array_filter($found, fn (int $sequence) => $this->isPossible($phase, $now, $sequence));
        $admissible = array_filter($possible, fn (int $sequence) => !$this->isStale($key, $sequence));
        if (count($admissible) === 1) {
            $sequence = reset($admissible);
            $stream = $this->phases->trace($sequence);
            $this->see($key, $sequence, $stream->number);
            $this->sizes[$key] = $stream->size($sequence);
        }
        if ($admissible !== []) {
            return false;
        }
        if ($possible !== []) {
            ++$this->verdict->stale;
            $this->tell($key, 'a value that was overwritten or deleted before');
            return false;
        }
        return $this->wrong($key, 'a value whose set was refused or comes later');
    }

    private function isPossible(int $phase, int $now, int $sequence): bool
    {
        $stream = $this->phases->trace($sequence);
        if (isset($this->refused[$sequence]) || $stream->phase > $phase) {
            return false;
        }
        $own = $stream->number === $this->phases->ownNumber($phase);
        return !($own && $stream->phase === $phase && $sequence > $now);
    }

    private function isStale(int $key, int $sequence): bool
    {
        if (!isset($this->latest[$key])) {
            return false;
        }
        $stream = $this->phases->trace($sequence);
        $newest = $this->newest[$key * $this->phases->width + $stream->number] ?? -1;
        return $sequence < $newest || $stream->phase < $this->phases->trace($this->latest[$key])->phase;
    }

    private function whose(mixed $answer): string
    {
        $what = is_array($answer) ? count($answer) . ' fields' : number_format(strlen($answer)) . ' bytes';
        if ($this->verdict->hasEnough()) {
            return $what;
        }
        $owner = $this->stored->keyOf($answer);
        return $owner === null
            ? "$what that were never stored"
            : "$what that belong to the key '{$this->keys->key($owner)}'";
    }

    private function wrong(int $key, string $what): bool
    {
        ++$this->verdict->wrong;
        $this->tell($key, $what);
        return true;
    }

    private function tell(int $key, string $what): void
    {
        $this->verdict->tell("get('{$this->keys->key($key)}') returned $what");
    }
}
