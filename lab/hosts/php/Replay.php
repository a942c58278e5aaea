<?php

declare(strict_types=1);

namespace Lab\Host;

use FilesystemIterator;
use RecursiveDirectoryIterator;
use RecursiveIteratorIterator;

/**
 * The replay of a trace: look up, store on a miss, count the hits.
 *
 * Owns the order of those two and what the store occupies meanwhile. Must not time anything: the hit
 * ratio is the result.
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
        private readonly Ledger $ledger,
    ) {
    }

    /** @return array<string, mixed> the reply */
    public function run(string $folder): array
    {
        $hits = $refused = $bytesPeak = 0;
        [$get, $set] = [$this->store->get, $this->store->set];
        for ($position = 0; $position < $this->stream->count; ++$position) {
            [$key, $sequence, $size] = $this->stream->request($position);
            $text = $this->keys->key($key);
            $answer = $get($text);
            if ($answer !== null && $answer !== false) {
                ++$hits;
                $this->ledger->judge($key, $text, $answer);
            } elseif ($set($text, $this->values->derive($key, $sequence, $size)) === false) {
                ++$refused;
            } else {
                $this->ledger->stored($key, $sequence, $size);
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
            'verdict' => $this->ledger->takeVerdict(),
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
