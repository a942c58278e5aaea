<?php

declare(strict_types=1);

namespace Lab\Host;

/**
 * What this worker, which alone writes, knows of the store, and the check of answers against it.
 *
 * Owns the rules: which answer is wrong, which is stale, which miss is right. Must not run while a clock
 * does, nor know which contestant answered.
 *
 * - A get must answer the value that was stored last, to the byte. One that was stored before it, or
 *   before a delete, is stale. Anything else is wrong.
 * - A refused set leaves the old value or takes it away, so both are right afterwards.
 * - A miss is right where no set has asked for the key since its last delete.
 * - A delete that found nothing where something was stored leaves us in doubt: the entry may have been
 *   evicted before, or may still be there. Both are right.
 */
final class Ledger
{
    public const WEAK_BELOW_BYTES = 8;

    private const HISTORY_FORMAT = 'PV';
    private const HISTORY_BYTES = 12;

    /** @var array<int, int> the sequence of the value that a get of the key may answer, if any */
    private array $sequences = [];
    /** @var array<int, int> its size */
    private array $sizes = [];
    /** @var array<int, true> keys that were set, refused or not, and not deleted since */
    private array $wanted = [];
    /** @var array<int, string> sequence and size of all that was stored under the key, packed */
    private array $histories = [];

    public Verdict $verdict;

    public function __construct(private readonly Values $values, private readonly bool $complex)
    {
        $this->verdict = new Verdict();
    }

    /**
     * Check the answers to a block and learn from them.
     *
     * @param list<mixed> $answers
     * @param array<int, Tally>|null $tallies to count in; null while warming up
     */
    public function check(Block $block, array $answers, ?array $tallies): void
    {
        foreach ($answers as $index => $answer) {
            $key = $block->numbers[$index];
            $wrongBefore = $this->verdict->wrong;
            $absent = false;
            switch ($block->verbs[$index]) {
                case Stream::GET:
                    $miss = $answer === null || $answer === false;
                    $absent = $miss && !isset($this->wanted[$key]);
                    if (!$miss) {
                        $this->judge($key, $block->keys[$index], $answer);
                    }
                    break;
                case Stream::SET:
                    $miss = $answer === false;
                    $this->wanted[$key] = true;
                    if (!$miss) {
                        $this->stored($key, $block->sequences[$index], $block->sizes[$index]);
                    }
                    break;
                default:
                    $miss = !$answer;
                    unset($this->wanted[$key]);
                    if (!$miss) {
                        unset($this->sequences[$key], $this->sizes[$key]);
                    }
            }
            if ($tallies !== null) {
                $tally = $tallies[$block->verbs[$index]];
                $tally->count += 1;
                $tally->miss += (int) $miss;
                $tally->absent += (int) $absent;
                $tally->wrong += $this->verdict->wrong - $wrongBefore;
            }
        }
    }

    /** Learn that a value is in the store now. */
    public function stored(int $key, int $sequence, int $size): void
    {
        $this->sequences[$key] = $sequence;
        $this->sizes[$key] = $size;
        $this->histories[$key] ??= '';
        $this->histories[$key] .= pack(self::HISTORY_FORMAT, $sequence, $size);
    }

    /** Check one answer of a get that found something. */
    public function judge(int $key, string $text, mixed $answer): void
    {
        $sequence = $this->sequences[$key] ?? null;
        if ($sequence !== null && $this->values->matches($answer, $key, $sequence, $this->sizes[$key])) {
            if (!$this->complex && $this->sizes[$key] < self::WEAK_BELOW_BYTES) {
                ++$this->verdict->weak;
            }
        } elseif ($this->wasStored($key, $answer)) {
            ++$this->verdict->stale;
            $this->verdict->tell("get('$text') answered a value that was overwritten or deleted before");
        } else {
            ++$this->verdict->wrong;
            $this->verdict->tell("get('$text') answered {$this->describe($answer)} never stored under it");
        }
    }

    /** The verdict since it was last taken. */
    public function takeVerdict(): Verdict
    {
        $verdict = $this->verdict;
        $this->verdict = new Verdict();
        return $verdict;
    }

    private function wasStored(int $key, mixed $answer): bool
    {
        foreach (str_split($this->histories[$key] ?? '', self::HISTORY_BYTES) as $entry) {
            if ($entry === '') {
                return false;
            }
            ['sequence' => $sequence, 'size' => $size] = unpack('Psequence/Vsize', $entry);
            if ($this->values->matches($answer, $key, $sequence, $size)) {
                return true;
            }
        }
        return false;
    }

    private function describe(mixed $answer): string
    {
        return match (true) {
            is_string($answer) => strlen($answer) . ' bytes',
            is_array($answer) => count($answer) . ' fields',
            default => 'a value of type ' . get_debug_type($answer),
        };
    }
}
