<?php

declare(strict_types=1);

namespace Lab\Host;

use function hrtime;

/**
 * The timed loops, and nothing between the clock's two readings but the operations.
 *
 * Owns how operations are timed. Must not know which contestant it drives, nor check what it answers.
 *
 * Blocks of one verb go through the same loop as mixed ones, so that phases compare.
 */
final class Loop
{
    private const TIMER_SAMPLES = 1_000;

    public function __construct(private readonly Kernel $kernel)
    {
    }

    /**
     * Obey a block with one pair of clock readings around all of it.
     *
     * @return array{list<mixed>, int, int} the answers, the time, the CPU time, both in nanoseconds
     */
    public function obey(Store $store, Block $block): array
    {
        [$get, $set, $delete] = [$store->get, $store->set, $store->delete];
        [$verbs, $keys, $values] = [$block->verbs, $block->keys, $block->values];
        $answers = [];
        $cpuStartedNs = $this->kernel->cpuNs();
        $startedNs = hrtime(true);
        foreach ($verbs as $index => $verb) {
            if ($verb === Stream::GET) {
                $answers[] = $get($keys[$index]);
            } elseif ($verb === Stream::SET) {
                $answers[] = $set($keys[$index], $values[$index]);
            } else {
                $answers[] = $delete($keys[$index]);
            }
        }
        $endedNs = hrtime(true);
        return [$answers, $endedNs - $startedNs, $this->kernel->cpuNs() - $cpuStartedNs];
    }

    /**
     * Obey a block with a pair of clock readings around each operation.
     *
     * @return array{list<mixed>, list<int>, int} the answers, the durations, the CPU time of the block
     */
    public function obeyEach(Store $store, Block $block): array
    {
        [$get, $set, $delete] = [$store->get, $store->set, $store->delete];
        [$verbs, $keys, $values] = [$block->verbs, $block->keys, $block->values];
        $answers = [];
        $durationsNs = [];
        $cpuStartedNs = $this->kernel->cpuNs();
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
        return [$answers, $durationsNs, $this->kernel->cpuNs() - $cpuStartedNs];
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
