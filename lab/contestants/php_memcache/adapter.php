<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// The class Memcache. It returns false for a refusal, a miss and a broken connection alike. For the
// last it also raises a notice, which the host throws.
return static function (string $folder, Limits $limits, array $settings): Store {
    // The documented answers of memcached when it refuses a value.
    $refusals = ['object too large for cache', 'out of memory storing object'];
    $memcache = new Memcache();
    // Silenced, because PHP 8.2 deprecates the way in which the extension sets a property.
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
