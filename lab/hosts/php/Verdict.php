<?php

declare(strict_types=1);

namespace Lab\Host;

use JsonSerializable;

/** The result of checking answers: counts of operations, and examples of the first few. */
final class Verdict implements JsonSerializable
{
    private const EXAMPLES_MAX = 5;

    public int $wrong = 0;
    public int $stale = 0;
    public int $lost = 0;
    public int $weak = 0;
    /** @var list<string> */
    private array $examples = [];

    public function tell(string $example): void
    {
        if (!$this->hasEnough()) {
            $this->examples[] = $example;
        }
    }

    /** Whether there is no room for another example. */
    public function hasEnough(): bool
    {
        return count($this->examples) >= self::EXAMPLES_MAX;
    }

    /** @return array<string, mixed> */
    public function jsonSerialize(): array
    {
        return [
            'wrong' => $this->wrong,
            'stale' => $this->stale,
            'lost' => $this->lost,
            'weak' => $this->weak,
            'examples' => $this->examples,
        ];
    }
}
