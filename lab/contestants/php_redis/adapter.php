<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// The class Redis of the extension phpredis. It throws if the connection breaks.
return static function (string $folder, Limits $limits, array $settings): Store {
    $redis = new Redis();
    if (isset($settings['socket'])) {
        $redis->connect($settings['socket']);
    } else {
        $redis->connect($settings['host'], (int) $settings['port']);
    }
    $ttlMs = (int) (1_000 * (float) ($settings['ttl_seconds'] ?? 0));
    $options = $ttlMs === 0 ? [] : ['px' => $ttlMs];
    return new Store(
        get: $redis->get(...),
        set: static function (string $key, string $value) use ($redis, $options): bool {
            try {
                $stored = $redis->set($key, $value, $options);
                $reason = (string) $redis->getLastError();
            } catch (RedisException $error) {
                $stored = false;
                $reason = $error->getMessage();
            }
            // A full server refuses a value for which it could not make room.
            if (!$stored && !str_starts_with($reason, 'OOM ')) {
                throw new RuntimeException("set failed: $reason");
            }
            return $stored;
        },
        delete: $redis->del(...),
        close: $redis->close(...),
        getMany: $redis->mGet(...),
        clear: $redis->flushDB(...),
    );
};
