<?php

declare(strict_types=1);

namespace Lab\Host;

use Throwable;

/** Encodes replies as lines, and makes the replies of failed requests. */
final class Reply
{
    private const JSON = JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES;

    /** @param array<string, mixed> $reply */
    public static function encode(array $reply): string
    {
        return json_encode($reply, self::JSON) . "\n";
    }

    /** @return array<string, mixed> */
    public static function failed(Throwable $error): array
    {
        return [
            'event' => 'failed',
            'reason' => get_class($error) . ': ' . $error->getMessage(),
            'missing' => false,
        ];
    }

    /** @return array<string, mixed> */
    public static function missing(string $reason): array
    {
        return ['event' => 'failed', 'reason' => $reason, 'missing' => true];
    }
}
