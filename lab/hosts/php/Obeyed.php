<?php

declare(strict_types=1);

namespace Lab\Host;

/** A stretch, or the part of it that ran in time: unchecked answers, and readings of the clock. */
final class Obeyed
{
    public readonly int $endedNs;

    /**
     * @param int $startedNs the first reading of the clock
     * @param list<int> $readingsNs the readings after each block
     * @param int $cpuNs the CPU time of the stretch
     * @param int $deadlineNs the time limit of the pass
     * @param list<list<mixed>> $answers the answers of each block, to operations or batches
     * @param list<int> $durationsNs of each operation or batch, if requested
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
