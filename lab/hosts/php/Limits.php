<?php

declare(strict_types=1);

namespace Lab\Host;

/** The limits of a store, 0 for none. A contestant applies those that it supports. */
final class Limits
{
    public function __construct(public readonly int $entries, public readonly int $bytes)
    {
    }
}
