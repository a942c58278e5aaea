<?php

declare(strict_types=1);

namespace Lab\Host;

use InvalidArgumentException;

/**
 * The recorded streams of a run, from the point of view of one worker.
 *
 * Owns the stream of each sequence, and which worker has which stream. Must not know values or stores.
 */
final class Phases
{
    /** The largest number of streams of a phase. */
    public readonly int $width;
    /** @var list<list<Stream>> */
    private array $phases = [];
    /** @var list<Stream> the streams with operations, in the order of their sequences */
    private array $ordered = [];

    /** @param list<array{streams: list<array{path: string, base: int}>}> $phases as in a `load` request */
    public function __construct(array $phases, private readonly int $worker)
    {
        foreach ($phases as $phase => ['streams' => $described]) {
            $streams = [];
            foreach ($described as $number => ['path' => $path, 'base' => $base]) {
                $streams[] = new Stream($path, $phase, $number, $base);
            }
            $this->phases[] = $streams;
        }
        $this->width = max([1, ...array_map(count(...), $this->phases)]);
        $this->ordered = array_values(array_filter($this->all(), fn (Stream $one) => $one->count > 0));
        usort($this->ordered, fn (Stream $one, Stream $other) => $one->base <=> $other->base);
        for ($index = 1; $index < count($this->ordered); ++$index) {
            $base = $this->ordered[$index]->base;
            if ($base < $this->ordered[$index - 1]->end) {
                throw new InvalidArgumentException("the sequence $base belongs to two streams");
            }
        }
    }

    /** @return list<Stream> every stream, phase by phase */
    public function all(): array
    {
        return array_merge(...$this->phases);
    }

    /** The number of the stream of a phase that this worker runs. */
    public function ownNumber(int $phase): int
    {
        return count($this->phases[$phase]) > 1 ? $this->worker : 0;
    }

    /** The stream of a phase that this worker runs. */
    public function own(int $phase): Stream
    {
        $streams = $this->phases[$phase] ?? throw new InvalidArgumentException("there is no phase $phase");
        return $streams[$this->ownNumber($phase)];
    }

    /** The stream that a sequence of this run comes from. */
    public function trace(int $sequence): Stream
    {
        [$low, $high] = [0, count($this->ordered)];
        while ($high - $low > 1) {
            $middle = ($low + $high) >> 1;
            if ($this->ordered[$middle]->base <= $sequence) {
                $low = $middle;
            } else {
                $high = $middle;
            }
        }
        return $this->ordered[$low];
    }
}
