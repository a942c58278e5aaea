<?php

declare(strict_types=1);

namespace Lab\Host;

/**
 * The probe: does the store keep what fits, return the latest value, and delete?
 *
 * Owns the probe keys, which are not part of the measured workload. Must not run while anything is timed.
 * There are so few entries that the store must not evict any: a missing key was lost.
 */
final class Probe
{
    private const KEYS_PER_WORKER = 64;
    private const VALUE_BYTES = 160;
    private const VALUE_FIELDS = 5;
    private const ROUNDS = 3;
    // Above all key numbers of streams.
    private const NUMBER_MIN = 1 << 32;

    private readonly int $size;
    /** @var array<string, true> keys of this worker with a refused set */
    private array $refused = [];

    public function __construct(
        private readonly Store $store,
        private readonly Values $values,
        bool $complex,
    ) {
        $this->size = $complex ? self::VALUE_FIELDS : self::VALUE_BYTES;
    }

    /**
     * Store each key three times, and delete every fourth key.
     *
     * @return array<string, mixed> the reply
     */
    public function write(int $worker): array
    {
        $refused = 0;
        for ($round = 0; $round < self::ROUNDS; ++$round) {
            for ($index = 0; $index < self::KEYS_PER_WORKER; ++$index) {
                $value = $this->values->derive(self::number($worker, $index), $round, $this->size);
                if (($this->store->set)("probe-$worker-$index", $value) === false) {
                    ++$refused;
                    $this->refused["probe-$worker-$index"] = true;
                }
            }
        }
        for ($index = 0; $index < self::KEYS_PER_WORKER; ++$index) {
            if (self::isDeleted($index)) {
                ($this->store->delete)("probe-$worker-$index");
            }
        }
        return self::probed(self::KEYS_PER_WORKER, $refused, new Verdict());
    }

    /**
     * Read the keys of `workers` and compare each with its last value.
     *
     * If a set of this worker's key was refused, only another key's value is a fault. Refusals of other
     * workers' keys are unknown here.
     *
     * @param list<int> $workers
     * @return array<string, mixed> the reply
     */
    public function read(array $workers): array
    {
        $verdict = new Verdict();
        foreach ($workers as $worker) {
            for ($index = 0; $index < self::KEYS_PER_WORKER; ++$index) {
                $this->judge($verdict, $worker, $index, ($this->store->get)("probe-$worker-$index"));
            }
        }
        return self::probed(self::KEYS_PER_WORKER * count($workers), 0, $verdict);
    }

    private function judge(Verdict $verdict, int $worker, int $index, mixed $answer): void
    {
        $key = "'probe-$worker-$index'";
        $deleted = self::isDeleted($index);
        $refused = isset($this->refused["probe-$worker-$index"]);
        if ($answer === null || $answer === false) {
            if (!$deleted && !$refused) {
                ++$verdict->lost;
                $verdict->tell("$key was stored and is missing, though the store was not full");
            }
            return;
        }
        for ($round = self::ROUNDS - 1; $round >= 0; --$round) {
            if ($this->values->matches($answer, self::number($worker, $index), $round, $this->size)) {
                if (!$refused && ($deleted || $round < self::ROUNDS - 1)) {
                    ++$verdict->stale;
                    $what = $deleted ? 'deleted' : 'overwritten';
                    $verdict->tell("$key returned a value that was $what");
                }
                return;
            }
        }
        ++$verdict->wrong;
        $verdict->tell("$key returned something that was never stored under it");
    }

    /** @return array<string, mixed> */
    private static function probed(int $keys, int $refused, Verdict $verdict): array
    {
        return ['event' => 'probed', 'keys' => $keys, 'refused' => $refused, 'verdict' => $verdict];
    }

    private static function number(int $worker, int $index): int
    {
        return self::NUMBER_MIN + $worker * self::KEYS_PER_WORKER + $index;
    }

    private static function isDeleted(int $index): bool
    {
        return $index % 4 === 3;
    }
}
