<?php

declare(strict_types=1);

namespace Lab\Host;

/**
 * Consecutive operations. The timed loop uses `verbs`, `keys` and `values`; the check uses the rest.
 *
 * PHP walks through parallel arrays fastest.
 */
final class Block
{
    /** @var list<int> */
    public array $verbs = [];
    /** @var list<string> */
    public array $keys = [];
    /** @var list<string|array<string>|null> what to store; null for a get and a delete */
    public array $values = [];
    /** @var list<list<string>> the keys of each request for several keys */
    public array $batches = [];
    /** @var list<int> the numbers of the keys */
    public array $numbers = [];
    /** @var list<int> bytes, or fields of a complex value */
    public array $sizes = [];

    /** @param int $base the sequence of the first operation */
    public function __construct(public readonly int $phase, public readonly int $base)
    {
    }
}
