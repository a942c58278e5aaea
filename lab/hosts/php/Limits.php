<?php

declare(strict_types=1);

namespace Lab\Host;

/** How much a store may hold, 0 for no limit. A contestant obeys what it counts and says what it cannot. */
final class Limits
{
    public function __construct(public readonly int $entries, public readonly int $bytes)
    {
    }
}
