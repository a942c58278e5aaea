<?php

declare(strict_types=1);

namespace Lab\Host;

use Closure;

use function hrtime;

/**
 * The timed loops, with nothing but operations between the clock readings.
 *
 * Owns how operations are timed. Must not know which contestant it drives, nor check its answers.
 *
 * Blocks with one verb use the same loop as mixed blocks, so that phases can be compared.
 */
final class Loop
{
    private const TIMER_SAMPLES = 1_000;
    private const NS_PER_US = 1_000;

    public function __construct(private readonly Kernel $kernel)
    {
    }

    /** Wait until the clock has reached `startNs`. */
    public function sleepUntil(int $startNs): void
    {
        while (($leftNs = $startNs - hrtime(true)) > 0) {
            usleep(intdiv($leftNs, self::NS_PER_US) + 1);
        }
    }

    /**
     * Run blocks one after the other without a pause, at least one, until the time is up.
     *
     * @param list<Block> $blocks
     * @param bool $each whether to read the clock also around each operation or batch
     * @param int|null $deadlineNs null: `secondsMaxNs` after the first reading
     */
    public function obey(
        Store $store,
        array $blocks,
        bool $each,
        ?int $deadlineNs,
        int $secondsMaxNs,
    ): Obeyed {
        $answers = $readingsNs = $durationsNs = [];
        $getMany = $store->getMany ?? self::oneByOne($store);
        $cpuStartedNs = $this->kernel->cpuNs();
        $startedNs = hrtime(true);
        $deadlineNs ??= $startedNs + $secondsMaxNs;
        foreach ($blocks as $block) {
            $answers[] = match (true) {
                $block->batches !== [] => $this->batches($getMany, $block, $each, $durationsNs),
                $each => $this->blockOfEach($store, $block, $durationsNs),
                default => $this->block($store, $block),
            };
            $nowNs = hrtime(true);
            $readingsNs[] = $nowNs;
            if ($nowNs >= $deadlineNs) {
                break;
            }
        }
        $cpuNs = $this->kernel->cpuNs() - $cpuStartedNs;
        return new Obeyed($startedNs, $readingsNs, $cpuNs, $deadlineNs, $answers, $durationsNs);
    }

    /** @return list<mixed> the answers */
    private function block(Store $store, Block $block): array
    {
        [$get, $set, $delete] = [$store->get, $store->set, $store->delete];
        [$verbs, $keys, $values] = [$block->verbs, $block->keys, $block->values];
        $answers = [];
        foreach ($verbs as $index => $verb) {
            if ($verb === Stream::GET) {
                $answers[] = $get($keys[$index]);
            } elseif ($verb === Stream::SET) {
                $answers[] = $set($keys[$index], $values[$index]);
            } else {
                $answers[] = $delete($keys[$index]);
            }
        }
        return $answers;
    }

    /**
     * @param list<int> $durationsNs receives the duration of each operation
     * @return list<mixed> the answers
     */
    private function blockOfEach(Store $store, Block $block, array &$durationsNs): array
    {
        [$get, $set, $delete] = [$store->get, $store->set, $store->delete];
        [$verbs, $keys, $values] = [$block->verbs, $block->keys, $block->values];
        $answers = [];
        foreach ($verbs as $index => $verb) {
            if ($verb === Stream::GET) {
                $startedNs = hrtime(true);
                $answer = $get($keys[$index]);
                $endedNs = hrtime(true);
            } elseif ($verb === Stream::SET) {
                $startedNs = hrtime(true);
                $answer = $set($keys[$index], $values[$index]);
                $endedNs = hrtime(true);
            } else {
                $startedNs = hrtime(true);
                $answer = $delete($keys[$index]);
                $endedNs = hrtime(true);
            }
            $answers[] = $answer;
            $durationsNs[] = $endedNs - $startedNs;
        }
        return $answers;
    }

    /**
     * @param list<int> $durationsNs receives the duration of each batch, with `each`
     * @return list<mixed> the answer to each batch
     */
    private function batches(Closure $getMany, Block $block, bool $each, array &$durationsNs): array
    {
        $answers = [];
        foreach ($block->batches as $keys) {
            if ($each) {
                $startedNs = hrtime(true);
                $found = $getMany($keys);
                $endedNs = hrtime(true);
                $durationsNs[] = $endedNs - $startedNs;
            } else {
                $found = $getMany($keys);
            }
            $answers[] = $found;
        }
        return $answers;
    }

    private static function oneByOne(Store $store): Closure
    {
        $get = $store->get;
        return static function (array $keys) use ($get): array {
            $answers = [];
            foreach ($keys as $key) {
                $answers[] = $get($key);
            }
            return $answers;
        };
    }

    /** @return list<int> the cost of reading the clock, in nanoseconds */
    public static function timerNs(): array
    {
        $differences = [];
        for ($sample = 0; $sample < self::TIMER_SAMPLES; ++$sample) {
            $startedNs = hrtime(true);
            $endedNs = hrtime(true);
            $differences[] = $endedNs - $startedNs;
        }
        return $differences;
    }
}
