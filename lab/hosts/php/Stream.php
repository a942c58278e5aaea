<?php

declare(strict_types=1);

namespace Lab\Host;

use Generator;
use RuntimeException;

/**
 * The recorded operations of one worker in one phase, which the host reads before the clock starts.
 *
 * Owns the format of their file (PROTOCOL.md) and the sequence of each operation. The records keep the
 * file's format to save memory, because every worker has all streams.
 */
final class Stream
{
    public const GET = 0;
    public const SET = 1;
    public const DELETE = 2;

    private const MAGIC = 'LABOPS01';
    private const RECORD_BYTES = 12;
    private const RECORDS_AT_ONCE = 4_096;

    public readonly int $count;
    /** The first sequence after this stream. */
    public readonly int $end;
    private readonly string $records;

    /**
     * @param int $phase the number of the phase
     * @param int $number the number of the stream in the phase
     * @param int $base the sequence of the first operation
     */
    public function __construct(
        string $path,
        public readonly int $phase,
        public readonly int $number,
        public readonly int $base,
    ) {
        // Read in two parts: a store could use the memory of a freed copy uncounted.
        $magic = file_get_contents($path, length: strlen(self::MAGIC));
        $this->records = file_get_contents($path, offset: strlen(self::MAGIC));
        if ($magic !== self::MAGIC || strlen($this->records) % self::RECORD_BYTES !== 0) {
            throw new RuntimeException("$path is not an operation stream; let the runner write it again");
        }
        $this->count = intdiv(strlen($this->records), self::RECORD_BYTES);
        $this->end = $base + $this->count;
    }

    /** The operations from position `start` up to `stop`, ready to run. */
    public function block(int $start, int $stop, Keys $keys, Values $values): Block
    {
        $block = new Block($this->phase, $this->base + $start);
        $numbers = $this->numbers($start, $stop);
        for ($sequence = $block->base, $index = 1; $index <= count($numbers); ++$sequence, $index += 3) {
            [$verb, $key, $size] = [$numbers[$index], $numbers[$index + 1], $numbers[$index + 2]];
            if ($verb > self::DELETE) {
                throw new RuntimeException("there is no verb $verb in an operation stream");
            }
            $block->verbs[] = $verb;
            $block->keys[] = $keys->key($key);
            $block->values[] = $verb === self::SET ? $values->derive($key, $sequence, $size) : null;
            $block->numbers[] = $key;
            $block->sizes[] = $size;
        }
        return $block;
    }

    /** @return Generator<int, int> the keys of all sets, by their sequences */
    public function sets(): Generator
    {
        for ($start = 0; $start < $this->count; $start += self::RECORDS_AT_ONCE) {
            $numbers = $this->numbers($start, min($start + self::RECORDS_AT_ONCE, $this->count));
            $sequence = $this->base + $start;
            for ($index = 1; $index <= count($numbers); ++$sequence, $index += 3) {
                if ($numbers[$index] === self::SET) {
                    yield $sequence => $numbers[$index + 1];
                }
            }
        }
    }

    /** The size of an operation of this stream, whatever its verb. */
    public function size(int $sequence): int
    {
        return unpack('V', $this->records, ($sequence - $this->base) * self::RECORD_BYTES + 8)[1];
    }

    /** @return array{int, int, int} key, sequence and size of an operation, whatever its verb */
    public function request(int $position): array
    {
        [1 => $key, 2 => $size] = unpack('V2', $this->records, $position * self::RECORD_BYTES + 4);
        return [$key, $this->base + $position, $size];
    }

    /** @return array<int, int> verb, key and size of each operation, one after the other, from index 1 */
    private function numbers(int $start, int $stop): array
    {
        // The verb is one byte and three zeros, so a record is three numbers.
        $length = ($stop - $start) * self::RECORD_BYTES;
        return unpack('V*', substr($this->records, $start * self::RECORD_BYTES, $length));
    }
}
