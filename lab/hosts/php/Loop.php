<?php

declare(strict_types=1);

namespace Lab\Host;

use Closure;

use function hrtime;

/**
 * The timed loops, and nothing between the clock's readings but the operations.
 *
 * Owns how operations are timed. Must not know which contestant it drives, nor check what it answers.
 *
 * Blocks of one verb go through the same loop as mixed ones, so that phases compare.
 */
final class Loop
{
    private const TIMER_SAMPLES = 1_000;
    private const NS_PER_US = 1_000;

    public function __construct(private readonly Kernel $kernel)
    {
    }

    /** Wait until the clock has reached `startNs`, if it has not. */
    public function sleepUntil(int $startNs): void
    {
        while (($leftNs = $startNs - hrtime(true)) > 0) {
            usleep(intdiv($leftNs, self::NS_PER_US) + 1);
        }
    }

    /**
     * Obey blocks one after the other without a pause, at least one, until the time is up.
     *
     * @param list<Block> $blocks
     * @param bool $each whether to read the clock around each operation, or batch, as well
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
     * @param list<int> $durationsNs to which the duration of each operation is added
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
     * @param list<int> $durationsNs to which the duration of each batch is added, if `each` says so
     * @return list<mixed> what was answered to each batch
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

    /** @return list<int> how long the clock itself takes, in nanoseconds */
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
