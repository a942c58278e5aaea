<?php

declare(strict_types=1);

namespace Lab\Host;

/**
 * The replay of a trace: look up, store on a miss, count the hits.
 *
 * Owns that order and the check of hits. Must not time anything: the result is the hit ratio. Its own
 * memory has its full size before the first request, so that only the store grows.
 */
final class Replay
{
    private const NOWHERE = -1;
    private const LONG_BYTES = 100;

    /** @var list<int> for each key the position of the request that stored it last */
    private array $stored;

    public function __construct(
        private readonly Stream $stream,
        private readonly Keys $keys,
        private readonly Values $values,
    ) {
        $this->stored = array_fill(0, $keys->count(), self::NOWHERE);
        // The first long value creates the pool that all values are cut from.
        $values->derive(0, 0, self::LONG_BYTES);
        gc_mem_caches();
    }

    /**
     * Replay a slice. Only this process writes, so a hit must return the value stored last.
     *
     * @return array<string, mixed> the reply
     */
    public function run(Store $store, int $start, int $stop): array
    {
        $hits = $refused = 0;
        $verdict = new Verdict();
        [$get, $set] = [$store->get, $store->set];
        for ($position = $start; $position < $stop; ++$position) {
            [$key, $sequence, $size] = $this->stream->request($position);
            $text = $this->keys->key($key);
            $answer = $get($text);
            if ($answer !== null && $answer !== false) {
                ++$hits;
                if (!$this->isLast($key, $answer)) {
                    ++$verdict->wrong;
                    $verdict->tell("get('$text') did not return the value stored last");
                }
            } elseif ($set($text, $this->values->derive($key, $sequence, $size)) === false) {
                ++$refused;
            } else {
                $this->stored[$key] = $position;
            }
        }
        return ['event' => 'replayed', 'hits' => $hits, 'refused' => $refused, 'verdict' => $verdict];
    }

    private function isLast(int $key, mixed $answer): bool
    {
        $last = $this->stored[$key];
        if ($last === self::NOWHERE) {
            return false;
        }
        [, $sequence, $size] = $this->stream->request($last);
        return $this->values->matches($answer, $key, $sequence, $size);
    }
}
