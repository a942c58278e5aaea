<?php

declare(strict_types=1);

namespace Lab\Host;

use RuntimeException;

/** The keys: the key with number n is line n of the file, from 0. */
final class Keys
{
    /** @var list<string> each with its line feed */
    private readonly array $lines;

    public function __construct(string $path)
    {
        $lines = file($path);
        if ($lines !== [] && !str_ends_with(end($lines), "\n")) {
            $lines[] = array_pop($lines) . "\n";
        }
        $this->lines = $lines;
    }

    /** The number of keys. */
    public function count(): int
    {
        return count($this->lines);
    }

    /**
     * A new string for the key, whose hash is not yet computed.
     *
     * Keys of one character are an exception, because PHP shares these strings.
     */
    public function key(int $number): string
    {
        $line = $this->lines[$number] ?? throw new RuntimeException(
            "there is no key $number, the file of keys has " . count($this->lines)
        );
        return substr($line, 0, -1);
    }
}
