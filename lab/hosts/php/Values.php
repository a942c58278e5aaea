<?php

declare(strict_types=1);

namespace Lab\Host;

/**
 * Derived values: a pseudo-random function of seed, key number and sequence, cut to length.
 *
 * Owns the derivation, which all hosts must repeat bit for bit (PROTOCOL.md has the formula and vectors),
 * and the marks: a mark is a short part of a value by which an answer is looked up. Must not know who
 * stores the values, or when.
 */
final class Values
{
    private const HEAD_BYTES = 64;
    private const POOL_BLOCKS = 65_536;
    private const OFFSETS = 1 << 20;
    private const FIELD_BYTES = 14;
    private const NAME_DIGITS = 8;
    private const MARK_BYTES = 16;
    private const WEAK_BELOW_BYTES = 8;

    private string $pool = '';

    public function __construct(private readonly int $seed, private readonly bool $complex)
    {
    }

    /**
     * The value of a sequence of a key.
     *
     * @param int $size bytes, or fields of a complex value
     * @return string|array<string> PHP turns a name that is a decimal number into an integer
     */
    public function derive(int $key, int $sequence, int $size): string|array
    {
        return $this->complex ? $this->map($key, $sequence, $size) : $this->bytes($key, $sequence, $size);
    }

    /** Whether `answer` is that value. The order of complex fields does not matter. */
    public function matches(mixed $answer, int $key, int $sequence, int $size): bool
    {
        $value = $this->derive($key, $sequence, $size);
        if ($this->complex && is_array($answer)) {
            // The comparison == of arrays would treat "1e1" and "10" as equal.
            ksort($value);
            ksort($answer);
        }
        return $answer === $value;
    }

    /** The mark of that value: its beginning, or the first field of a complex value. */
    public function mark(int $key, int $sequence, int $size): string
    {
        if (!$this->complex) {
            return $this->bytes($key, $sequence, min($size, self::MARK_BYTES));
        }
        $map = $this->map($key, $sequence, $size);
        $name = array_key_first($map);
        return $name === null ? '' : "$name {$map[$name]}";
    }

    /**
     * The possible marks of an answer: all fields of a complex value, in any order.
     *
     * @return list<string>|null null if it is not a value
     */
    public function marks(mixed $answer): ?array
    {
        if (!$this->complex) {
            return is_string($answer) ? [substr($answer, 0, self::MARK_BYTES)] : null;
        }
        if (!is_array($answer) || array_filter($answer, is_string(...)) !== $answer) {
            return null;
        }
        $marks = [];
        foreach ($answer as $name => $content) {
            $marks[] = "$name $content";
        }
        return $marks === [] ? [''] : $marks;
    }

    /** Whether a value is so short that it could be right by chance. A field has 14 bytes. */
    public function isWeak(string|array $value): bool
    {
        return is_string($value) && strlen($value) < self::WEAK_BELOW_BYTES;
    }

    /** @return array<string> */
    private function map(int $key, int $sequence, int $fields): array
    {
        $map = [];
        if ($fields > 0) {
            $digits = bin2hex($this->bytes($key, $sequence, self::FIELD_BYTES * $fields));
            foreach (str_split($digits, 2 * self::FIELD_BYTES) as $field) {
                $map[substr($field, 0, self::NAME_DIGITS)] = substr($field, self::NAME_DIGITS);
            }
        }
        return $map;
    }

    private function bytes(int $key, int $sequence, int $length): string
    {
        $head = hash('sha512', pack('P3', $this->seed, $key, $sequence), true);
        if ($length <= self::HEAD_BYTES) {
            return substr($head, 0, $length);
        }
        if ($this->pool === '') {
            $this->pool = $this->pool();
        }
        $offset = unpack('V', $head)[1] % self::OFFSETS;
        return $head . substr($this->pool, $offset, $length - self::HEAD_BYTES);
    }

    private function pool(): string
    {
        // Built in a file: PHP keeps the freed memory of an array or a growing text, which a store
        // could use uncounted in a replay.
        $file = tmpfile();
        for ($block = 0; $block < self::POOL_BLOCKS; ++$block) {
            fwrite($file, hash('sha512', pack('PV', $this->seed, $block), true));
        }
        rewind($file);
        return stream_get_contents($file);
    }
}
