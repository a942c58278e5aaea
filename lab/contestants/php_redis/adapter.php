<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// The class Redis, from the extension phpredis. It throws when the connection breaks.
return static function (string $folder, Limits $limits, array $settings): Store {
    $redis = new Redis();
    if (isset($settings['socket'])) {
        $redis->connect($settings['socket']);
    } else {
        $redis->connect($settings['host'], (int) $settings['port']);
    }
    return new Store(
        get: $redis->get(...),
        set: static function (string $key, string $value) use ($redis): bool {
            if ($redis->set($key, $value)) {
                return true;
            }
            $reason = (string) $redis->getLastError();
            if (!str_starts_with($reason, 'OOM ')) {
                throw new RuntimeException("set failed: $reason");
            }
            return false;
        },
        delete: $redis->del(...),
        close: $redis->close(...),
    );
};
