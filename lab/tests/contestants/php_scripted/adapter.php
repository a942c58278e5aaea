<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// Gives the answers of a script and keeps the values of sets; see `Hosts.scripted`.
return static function (string $folder, Limits $limits, array $settings): Store {
    $lines = file($settings['script'], FILE_IGNORE_NEW_LINES);
    $next = 0;
    $says = static function () use ($lines, &$next): mixed {
        $line = $lines[$next++];
        if ($line === 'slow') {
            usleep(200_000);
        }
        return match ($line) {
            'nothing', 'slow' => null,
            'yes' => true,
            'no' => false,
            'raise' => throw new RuntimeException('no value today'),
            default => hex2bin(substr($line, 1)),
        };
    };
    $set = static function (string $key, string|array $value) use ($folder, $says): mixed {
        $kept = is_string($value) ? $value : json_encode($value, JSON_FORCE_OBJECT);
        file_put_contents("$folder/$key", $kept);
        return $says();
    };
    return new Store(get: $says, set: $set, delete: $says, close: static fn () => null);
};
