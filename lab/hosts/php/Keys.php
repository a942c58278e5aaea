<?php

declare(strict_types=1);

namespace Lab\Host;

use RuntimeException;

/** The keys: the one with number n is line n of their file, from 0. */
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

    /** How many keys there are. */
    public function count(): int
    {
        return count($this->lines);
    }

    /**
     * A new string for the key, whose hash nobody has computed yet.
     *
     * PHP has one string for each single character, so keys of one character are the exception.
     */
    public function key(int $number): string
    {
        $line = $this->lines[$number] ?? throw new RuntimeException(
            "there is no key $number, the file of keys has " . count($this->lines)
        );
        return substr($line, 0, -1);
    }
}
