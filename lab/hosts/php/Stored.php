<?php

declare(strict_types=1);

namespace Lab\Host;

/**
 * All values that any worker ever stores, and how an answer is found among them.
 *
 * Owns the tables of marks: for each key those of all its values, with their sequences. A table is made
 * when the first answer has to be looked up in it, so a run in which every answer is the expected one
 * makes none. Must not know what a store may answer.
 */
final class Stored
{
    /** @var array<int, string>|null the packed sequences of all sets of a key, phase by phase */
    private ?array $sequences = null;
    /** @var array<int, array<int|string, string>> of a key: the packed sequences that have the mark */
    private array $tables = [];

    public function __construct(private readonly Phases $phases, private readonly Values $values)
    {
    }

    /** Whether a stream of `phase` or one before stores the key. */
    public function isStoredBy(int $phase, int $key): bool
    {
        $this->sequences ??= $this->index();
        if (!isset($this->sequences[$key])) {
            return false;
        }
        return $this->phases->trace(unpack('P', $this->sequences[$key])[1])->phase <= $phase;
    }

    /**
     * The sequences of `key` whose value `answer` is, to the byte. Only values of a few bytes have several.
     *
     * @return list<int>|null null when it is no value at all
     */
    public function find(int $key, mixed $answer): ?array
    {
        $marks = $this->values->marks($answer);
        if ($marks === null) {
            return null;
        }
        $table = $this->tables[$key] ??= $this->table($key);
        $found = [];
        foreach ($marks as $mark) {
            if (isset($table[$mark])) {
                $found = unpack('P*', $table[$mark]);
                break;
            }
        }
        $matches = function (int $sequence) use ($key, $answer): bool {
            $size = $this->phases->trace($sequence)->size($sequence);
            return $this->values->matches($answer, $key, $sequence, $size);
        };
        return array_values(array_filter($found, $matches));
    }

    /** Search all that is stored for `answer`, and return the key that it belongs to. */
    public function keyOf(mixed $answer): ?int
    {
        $marks = $this->values->marks($answer) ?? [];
        foreach ($this->phases->all() as $stream) {
            foreach ($stream->sets() as $sequence => $key) {
                $size = $stream->size($sequence);
                if (
                    in_array($this->values->mark($key, $sequence, $size), $marks, true)
                    && $this->values->matches($answer, $key, $sequence, $size)
                ) {
                    return $key;
                }
            }
        }
        return null;
    }

    /** @return array<int|string, string> */
    private function table(int $key): array
    {
        $this->sequences ??= $this->index();
        $table = [];
        foreach (unpack('P*', $this->sequences[$key] ?? '') as $sequence) {
            $size = $this->phases->trace($sequence)->size($sequence);
            $mark = $this->values->mark($key, $sequence, $size);
            $table[$mark] = ($table[$mark] ?? '') . pack('P', $sequence);
        }
        return $table;
    }

    /** @return array<int, string> */
    private function index(): array
    {
        $sequences = [];
        foreach ($this->phases->all() as $stream) {
            foreach ($stream->sets() as $sequence => $key) {
                $sequences[$key] = ($sequences[$key] ?? '') . pack('P', $sequence);
            }
        }
        return $sequences;
    }
}
