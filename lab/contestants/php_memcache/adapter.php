<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// The class Memcache. It answers false for a refusal, for a miss and for a broken connection, and
// tells the last in a notice, which the host throws.
return static function (string $folder, Limits $limits, array $settings): Store {
    // The answers in which memcached documents that it will not store a value.
    $refusals = ['object too large for cache', 'out of memory storing object'];
    $memcache = new Memcache();
    // Silenced, because the extension sets a property in a way that PHP 8.2 deprecates.
    if (!@$memcache->connect($settings['host'], (int) $settings['port'])) {
        throw new RuntimeException("no connection to {$settings['host']}:{$settings['port']}");
    }
    error_clear_last();
    return new Store(
        get: $memcache->get(...),
        set: static function (string $key, string $value) use ($memcache, $refusals): bool {
            if (@$memcache->set($key, $value)) {
                return true;
            }
            $reason = error_get_last()['message'] ?? 'no reason given';
            error_clear_last();
            foreach ($refusals as $refusal) {
                if (str_contains($reason, $refusal)) {
                    return false;
                }
            }
            throw new RuntimeException("set failed: $reason");
        },
        delete: $memcache->delete(...),
        close: $memcache->close(...),
        getMany: static function (array $keys) use ($memcache): array {
            $found = $memcache->get($keys);
            $values = [];
            foreach ($keys as $key) {
                $values[] = $found[$key] ?? null;
            }
            return $values;
        },
        clear: static function () use ($memcache): void {
            if (!$memcache->flush()) {
                throw new RuntimeException('flush failed');
            }
        },
    );
};
