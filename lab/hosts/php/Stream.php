<?php

declare(strict_types=1);

namespace Lab\Host;

use RuntimeException;

/**
 * The recorded operations of one phase, which the host reads before the clock starts.
 *
 * Owns the format of their file (PROTOCOL.md) and the sequence of each operation.
 */
final class Stream
{
    public const GET = 0;
    public const SET = 1;
    public const DELETE = 2;

    private const MAGIC = 'LABOPS01';
    private const RECORD_BYTES = 12;

    public readonly int $count;
    private readonly string $records;

    /** @param int $base the sequence of the first operation */
    public function __construct(string $path, private readonly int $base)
    {
        $content = file_get_contents($path);
        $bytes = strlen($content) - strlen(self::MAGIC);
        if (!str_starts_with($content, self::MAGIC) || $bytes % self::RECORD_BYTES !== 0) {
            throw new RuntimeException("$path is not an operation stream; let the runner write it again");
        }
        $this->records = substr($content, strlen(self::MAGIC));
        $this->count = intdiv($bytes, self::RECORD_BYTES);
    }

    /** The operations from position `start` on, before `stop`, ready to be obeyed. */
    public function block(int $start, int $stop, Keys $keys, Values $values): Block
    {
        $block = new Block();
        $length = ($stop - $start) * self::RECORD_BYTES;
        // The verb is one byte and three zeros, so that a record is three numbers.
        $numbers = unpack('V*', substr($this->records, $start * self::RECORD_BYTES, $length));
        for ($position = $start, $index = 1; $position < $stop; ++$position, $index += 3) {
            [$verb, $key, $size] = [$numbers[$index], $numbers[$index + 1], $numbers[$index + 2]];
            if ($verb > self::DELETE) {
                throw new RuntimeException("there is no verb $verb in an operation stream");
            }
            $sequence = $this->base + $position;
            $block->verbs[] = $verb;
            $block->keys[] = $keys->key($key);
            $block->values[] = $verb === self::SET ? $values->derive($key, $sequence, $size) : null;
            $block->numbers[] = $key;
            $block->sequences[] = $sequence;
            $block->sizes[] = $size;
        }
        return $block;
    }

    /** @return array{int, int, int} key, sequence and size of an operation, whatever its verb */
    public function request(int $position): array
    {
        ['key' => $key, 'size' => $size] =
            unpack('Vverb/Vkey/Vsize', $this->records, $position * self::RECORD_BYTES);
        return [$key, $this->base + $position, $size];
    }
}
