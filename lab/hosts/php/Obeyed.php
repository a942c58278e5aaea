<?php

declare(strict_types=1);

namespace Lab\Host;

/** A stretch that was obeyed, as far as it came: answers and readings of the clock, yet to be checked. */
final class Obeyed
{
    public readonly int $endedNs;

    /**
     * @param int $startedNs the first reading of the clock
     * @param list<int> $readingsNs that after each block
     * @param int $cpuNs the CPU time of the stretch
     * @param int $deadlineNs when the pass ends
     * @param list<list<mixed>> $answers those of each block, to operations or to batches
     * @param list<int> $durationsNs of each operation or batch, if it was asked for
     */
    public function __construct(
        public readonly int $startedNs,
        public readonly array $readingsNs,
        public readonly int $cpuNs,
        public readonly int $deadlineNs,
        public readonly array $answers,
        public readonly array $durationsNs,
    ) {
        $this->endedNs = end($readingsNs);
    }
}
