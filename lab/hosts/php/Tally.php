<?php

declare(strict_types=1);

namespace Lab\Host;

/** One action of one pass: operations, misses, right misses (`absent`), and wrong answers. */
final class Tally
{
    public int $count = 0;
    public int $miss = 0;
    public int $absent = 0;
    public int $wrong = 0;

    /** @return array<int, Tally> one for each verb of a stream */
    public static function each(): array
    {
        return [Stream::GET => new self(), Stream::SET => new self(), Stream::DELETE => new self()];
    }
}
