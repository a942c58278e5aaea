<?php

declare(strict_types=1);

namespace Lab\Host;

/**
 * Some operations in a row. The clock sees `verbs`, `keys` and `values`; the rest is for the check.
 *
 * An array for each, with the same indices, is what PHP walks through fastest.
 */
final class Block
{
    /** @var list<int> */
    public array $verbs = [];
    /** @var list<string> */
    public array $keys = [];
    /** @var list<string|array<string>|null> what to store; null for a get and a delete */
    public array $values = [];
    /** @var list<list<string>> the keys that are asked for at once, where several are */
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
