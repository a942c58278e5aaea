<?php

declare(strict_types=1);

namespace Lab\Host;

use InvalidArgumentException;
use RuntimeException;

use function hrtime;

/**
 * One pass over a stream, warmed up and with its first stretch ready: derive, run, check, drop.
 *
 * Owns the order of these steps and the end of a pass. Must not know how operations are timed.
 */
final class Pass
{
    private const MEASURES = ['untimed', 'throughput', 'latency'];
    private const NS = 1_000_000_000;
    private const DURATIONS_AT_ONCE = 4_096;

    private readonly string $measure;
    private readonly int $size;
    private readonly int $stretch;
    private readonly int $batch;
    private readonly int $secondsMaxNs;
    private int $done = 0;
    /** @var list<Block> the next stretch */
    private array $ready = [];

    /** @param array<string, mixed> $fields the fields of the `prepare` request */
    public function __construct(
        private readonly Store $store,
        private readonly Stream $stream,
        private readonly Keys $keys,
        private readonly Values $values,
        private readonly Verifier $verifier,
        private readonly Loop $loop,
        array $fields,
    ) {
        ['measure' => $this->measure, 'block' => $this->size, 'stretch' => $this->stretch] = $fields;
        $this->batch = $fields['batch'];
        if (
            !in_array($this->measure, self::MEASURES, true)
            || min($this->size, $this->stretch, $this->batch) < 1
        ) {
            throw new InvalidArgumentException(
                "a pass cannot be $this->measure in blocks of $this->size, stretches of $this->stretch and "
                . "batches of $this->batch"
            );
        }
        $this->secondsMaxNs = (int) ($fields['seconds_max'] * self::NS);
        if ($this->warmUp(min($fields['warmup'], $this->stream->count))) {
            $this->makeReady();
        }
    }

    /**
     * Run the pass, or as much of it as the time allows, and check every answer.
     *
     * @param int $startNs the time to start at; a past time means at once
     * @param string $path the file for the durations, or empty
     * @return array<string, mixed> the reply
     */
    public function run(int $startNs, string $path): array
    {
        $tallies = Tally::each();
        $firstNs = $endedNs = $elapsedNs = $cpuNs = 0;
        $blocksNs = [];
        $durations = '';
        $deadlineNs = null;
        $this->loop->sleepUntil($startNs);
        while ($this->ready !== []) {
            $obeyed = $this->loop->obey(
                $this->store,
                $this->ready,
                $this->measure === 'latency',
                $deadlineNs,
                $this->secondsMaxNs
            );
            $deadlineNs = $obeyed->deadlineNs;
            $endedNs = $obeyed->endedNs;
            $firstNs = $firstNs ?: $obeyed->startedNs;
            $elapsedNs += $endedNs - $obeyed->startedNs;
            $cpuNs += $obeyed->cpuNs;
            $readNs = $obeyed->startedNs;
            foreach ($obeyed->readingsNs as $index => $nowNs) {
                if (count($this->ready[$index]->verbs) === $this->size) {
                    $blocksNs[] = $nowNs - $readNs;
                }
                $readNs = $nowNs;
            }
            foreach (array_chunk($obeyed->durationsNs, self::DURATIONS_AT_ONCE) as $durationsNs) {
                $durations .= pack('P*', ...$durationsNs);
            }
            foreach ($obeyed->answers as $index => $answers) {
                $this->check($this->ready[$index], $answers, $tallies);
            }
            // Free this stretch before the next one allocates memory.
            unset($obeyed, $answers);
            $this->ready = [];
            if ($endedNs < $deadlineNs) {
                $this->makeReady();
            }
        }
        if ($path !== '') {
            self::write($path, $durations);
        }
        $isTimed = $this->measure !== 'untimed';
        return [
            'event' => 'ran',
            'done' => $this->done,
            'started_ns' => $isTimed ? $firstNs : 0,
            'ended_ns' => $isTimed ? $endedNs : 0,
            'elapsed_ns' => $isTimed ? $elapsedNs : 0,
            'cpu_ns' => $isTimed ? $cpuNs : 0,
            'blocks_ns' => $this->measure === 'throughput' ? $blocksNs : [],
            'actions' => [
                'get' => $tallies[Stream::GET],
                'set' => $tallies[Stream::SET],
                'delete' => $tallies[Stream::DELETE],
            ],
            'verdict' => $this->verifier->takeVerdict(),
        ];
    }

    /** Run and check the first operations, untimed and uncounted. Return whether there is time left. */
    private function warmUp(int $operations): bool
    {
        $deadlineNs = hrtime(true) + $this->secondsMaxNs;
        while ($this->done < $operations) {
            $stop = min($this->done + $this->size, $operations);
            $block = $this->block($this->done, $stop);
            $obeyed = $this->loop->obey($this->store, [$block], false, $deadlineNs, 0);
            $this->check($block, $obeyed->answers[0], null);
            if ($obeyed->endedNs >= $deadlineNs) {
                return false;
            }
        }
        return true;
    }

    /** Prepare the next operations; none at the end of the stream. */
    private function makeReady(): void
    {
        $end = min($this->done + $this->stretch, $this->stream->count);
        for ($start = $this->done; $start < $end; $start += $this->size) {
            $stop = min($start + $this->size, $end);
            $this->ready[] = $this->block($start, $stop);
        }
    }

    private function block(int $start, int $stop): Block
    {
        $block = $this->stream->block($start, $stop, $this->keys, $this->values);
        if ($this->batch > 1) {
            if (max($block->verbs) !== Stream::GET) {
                throw new InvalidArgumentException('only gets can be batched');
            }
            $block->batches = array_chunk($block->keys, $this->batch);
        }
        return $block;
    }

    /**
     * Check the answers to a block, key by key.
     *
     * @param list<mixed> $answers
     * @param array<int, Tally>|null $tallies
     */
    private function check(Block $block, array $answers, ?array $tallies): void
    {
        foreach ($block->batches as $index => $keys) {
            $answered = $answers[$index];
            if (!is_array($answered) || !array_is_list($answered) || count($answered) !== count($keys)) {
                throw new RuntimeException('getMany did not return a list with a value for each key');
            }
        }
        $answers = $block->batches === [] ? $answers : array_merge(...$answers);
        $this->verifier->check($block, $answers, $tallies);
        $this->done += count($answers);
    }

    private static function write(string $path, string $durations): void
    {
        if (fwrite(fopen($path, 'xb'), $durations) !== strlen($durations)) {
            throw new RuntimeException('the durations could not be written; is the disk full?');
        }
    }
}
