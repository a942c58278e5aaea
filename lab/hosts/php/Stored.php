<?php

declare(strict_types=1);

namespace Lab\Host;

/**
 * All values that any worker ever stores, and the search for an answer among them.
 *
 * Owns the tables of marks: for each key the marks of all its values, with their sequences. A table is
 * made when an answer is first looked up in it; if every answer is as expected, there are none. Must not
 * know what a store may answer.
 */
final class Stored
{
    /** @var array<int, string>|null the packed sequences of all sets of a key, phase by phase */
    private ?array $sequences = null;
    /** @var array<int, array<int|string, string>> for each key: the packed sequences with each mark */
    private array $tables = [];

    public function __construct(private readonly Phases $phases, private readonly Values $values)
    {
    }

    /** Whether a stream of `phase` or an earlier phase stores the key. */
    public function isStoredBy(int $phase, int $key): bool
    {
        $this->sequences ??= $this->index();
        if (!isset($this->sequences[$key])) {
            return false;
        }
        return $this->phases->trace(unpack('P', $this->sequences[$key])[1])->phase <= $phase;
    }

    /**
     * The sequences of `key` whose value equals `answer`. Only values of a few bytes can have several.
     *
     * @return list<int>|null null if it is not a value at all
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

    /** Search all stored values for `answer`, and return its key. */
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
