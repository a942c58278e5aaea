<?php

declare(strict_types=1);

namespace Lab\Host;

use FilesystemIterator;
use RecursiveDirectoryIterator;
use RecursiveIteratorIterator;

/**
 * The replay of a trace: look up, store on a miss, count the hits.
 *
 * Owns the order of those two, what a hit must answer, and what the store occupies meanwhile. Must not
 * time anything: the hit ratio is the result.
 */
final class Replay
{
    private const REQUESTS_BETWEEN_WEIGHINGS = 1_000;
    private const STAT_BLOCK_BYTES = 512;

    public function __construct(
        private readonly Store $store,
        private readonly Stream $stream,
        private readonly Keys $keys,
        private readonly Values $values,
    ) {
    }

    /**
     * Replay the stream on an empty store that lives in `folder`.
     *
     * This process alone writes, so a hit must answer exactly the value stored last: anything else is
     * wrong.
     *
     * @return array<string, mixed> the reply
     */
    public function run(string $folder): array
    {
        $hits = $refused = $bytesPeak = 0;
        $verdict = new Verdict();
        /** @var array<int, array{int, int}> $stored of a key: the sequence and the size of its value */
        $stored = [];
        [$get, $set] = [$this->store->get, $this->store->set];
        for ($position = 0; $position < $this->stream->count; ++$position) {
            [$key, $sequence, $size] = $this->stream->request($position);
            $text = $this->keys->key($key);
            $answer = $get($text);
            if ($answer !== null && $answer !== false) {
                ++$hits;
                if (!isset($stored[$key]) || !$this->values->matches($answer, $key, ...$stored[$key])) {
                    ++$verdict->wrong;
                    $verdict->tell("get('$text') answered not what was stored last");
                }
            } elseif ($set($text, $this->values->derive($key, $sequence, $size)) === false) {
                ++$refused;
            } else {
                $stored[$key] = [$sequence, $size];
            }
            if ($position % self::REQUESTS_BETWEEN_WEIGHINGS === 0) {
                $bytesPeak = max($bytesPeak, self::bytesOccupied($folder));
            }
        }
        return [
            'event' => 'replayed',
            'requests' => $this->stream->count,
            'hits' => $hits,
            'refused' => $refused,
            'bytes_peak' => max($bytesPeak, self::bytesOccupied($folder)),
            'verdict' => $verdict,
        ];
    }

    private static function bytesOccupied(string $folder): int
    {
        clearstatcache();
        $bytes = 0;
        $found = new RecursiveIteratorIterator(
            new RecursiveDirectoryIterator($folder, FilesystemIterator::SKIP_DOTS)
        );
        foreach ($found as $path => $_) {
            // A file may vanish meanwhile, and then counts as nothing.
            $stat = @lstat($path);
            $bytes += $stat === false ? 0 : $stat['blocks'] * self::STAT_BLOCK_BYTES;
        }
        return $bytes;
    }
}
