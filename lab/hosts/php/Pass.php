<?php

declare(strict_types=1);

namespace Lab\Host;

use InvalidArgumentException;
use RuntimeException;

use function hrtime;

/**
 * One pass over a stream, block by block: derive, obey, check, drop.
 *
 * Owns the order of these and when a pass ends. Must not know what is between two readings of the clock.
 */
final class Pass
{
    private const MEASURES = ['untimed', 'throughput', 'latency'];

    private int $done = 0;
    private int $timedNs = 0;
    private int $cpuNs = 0;
    /** @var list<int> */
    private array $blocksNs = [];
    /** @var resource|null the file of durations */
    private mixed $durations = null;

    public function __construct(
        private readonly Store $store,
        private readonly Stream $stream,
        private readonly Keys $keys,
        private readonly Values $values,
        private readonly Ledger $ledger,
        private readonly Loop $loop,
    ) {
    }

    /**
     * Obey the stream as a `run` request asks for.
     *
     * @param array<string, mixed> $fields those of the request
     * @return array<string, mixed> the reply
     */
    public function run(array $fields): array
    {
        ['measure' => $measure, 'warmup' => $warmup, 'block' => $size] = $fields;
        if (!in_array($measure, self::MEASURES, true) || $size < 1) {
            throw new InvalidArgumentException("a pass cannot be $measure in blocks of $size");
        }
        if ($fields['durations'] !== '') {
            $this->durations = fopen($fields['durations'], 'xb');
        } elseif ($measure === 'latency') {
            throw new InvalidArgumentException('a latency pass needs a file for its durations');
        }
        $tallies = Tally::each();
        $startedNs = $warmedUpNs = hrtime(true);
        $endNs = $startedNs + (int) ($fields['seconds_max'] * 1e9);
        $warmup = min($warmup, $this->stream->count);
        while ($this->done < $this->stream->count) {
            $isWarmup = $this->done < $warmup;
            $stop = min($this->done + $size, $isWarmup ? $warmup : $this->stream->count);
            $this->block($stop, $isWarmup ? 'untimed' : $measure, $size, $isWarmup ? null : $tallies);
            $nowNs = hrtime(true);
            if ($isWarmup) {
                $warmedUpNs = $nowNs;
            }
            if ($nowNs >= $endNs) {
                break;
            }
        }
        $wallNs = $measure === 'untimed' ? 0 : hrtime(true) - $warmedUpNs;
        if ($this->durations !== null) {
            fclose($this->durations);
        }
        return [
            'event' => 'ran',
            'done' => $this->done,
            'wall_ns' => $wallNs,
            'timed_ns' => $this->timedNs,
            'cpu_ns' => $this->cpuNs,
            'blocks_ns' => $this->blocksNs,
            'actions' => [
                'get' => $tallies[Stream::GET],
                'set' => $tallies[Stream::SET],
                'delete' => $tallies[Stream::DELETE],
            ],
            'verdict' => $this->ledger->takeVerdict(),
        ];
    }

    /** @param array<int, Tally>|null $tallies */
    private function block(int $stop, string $measure, int $full, ?array $tallies): void
    {
        $block = $this->stream->block($this->done, $stop, $this->keys, $this->values);
        if ($measure === 'latency') {
            [$answers, $durationsNs, $cpuNs] = $this->loop->obeyEach($this->store, $block);
            $elapsedNs = array_sum($durationsNs);
            $this->note($durationsNs);
        } else {
            [$answers, $elapsedNs, $cpuNs] = $this->loop->obey($this->store, $block);
        }
        if ($measure !== 'untimed') {
            $this->timedNs += $elapsedNs;
            $this->cpuNs += $cpuNs;
        }
        if ($measure === 'throughput' && $stop - $this->done === $full) {
            $this->blocksNs[] = $elapsedNs;
        }
        $this->done = $stop;
        $this->ledger->check($block, $answers, $tallies);
    }

    /** @param list<int> $durationsNs */
    private function note(array $durationsNs): void
    {
        $bytes = pack('P*', ...$durationsNs);
        if (fwrite($this->durations, $bytes) !== strlen($bytes)) {
            throw new RuntimeException('the durations could not be written; is the disk full?');
        }
    }
}
