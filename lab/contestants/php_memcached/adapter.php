<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// The class Memcached. It returns false for a refusal, a miss and a broken connection alike; only its
// result code distinguishes them.
return static function (string $folder, Limits $limits, array $settings): Store {
    $memcached = new Memcached();
    if ($settings['client'] === 'set up') {
        $memcached->setOptions([
            Memcached::OPT_TCP_NODELAY => true,
            Memcached::OPT_COMPRESSION => false,
        ]);
    }
    if (isset($settings['socket'])) {
        $memcached->addServer($settings['socket'], 0);
    } else {
        $memcached->addServer($settings['host'], (int) $settings['port']);
    }
    if ($memcached->getVersion() === false) {
        throw new RuntimeException("no connection: {$memcached->getResultMessage()}");
    }
    $ttl = (int) ceil((float) ($settings['ttl_seconds'] ?? 0));
    $expect = static function (int ...$codes) use ($memcached): void {
        if (!in_array($memcached->getResultCode(), $codes, true)) {
            throw new RuntimeException("memcached failed: {$memcached->getResultMessage()}");
        }
    };
    return new Store(
        get: static function (string $key) use ($memcached, $expect): mixed {
            $value = $memcached->get($key);
            if ($value === false) {
                $expect(Memcached::RES_NOTFOUND);
            }
            return $value;
        },
        set: static function (string $key, string $value) use ($memcached, $expect, $ttl): bool {
            $stored = $memcached->set($key, $value, $ttl);
            if (!$stored) {
                $expect(Memcached::RES_E2BIG, Memcached::RES_SERVER_MEMORY_ALLOCATION_FAILURE);
            }
            return $stored;
        },
        delete: static function (string $key) use ($memcached, $expect): bool {
            $deleted = $memcached->delete($key);
            if (!$deleted) {
                $expect(Memcached::RES_NOTFOUND);
            }
            return $deleted;
        },
        close: $memcached->quit(...),
        getMany: static function (array $keys) use ($memcached, $expect): array {
            $found = $memcached->getMulti($keys);
            $expect(Memcached::RES_SUCCESS, Memcached::RES_NOTFOUND);
            $values = [];
            foreach ($keys as $key) {
                $values[] = $found[$key] ?? null;
            }
            return $values;
        },
        clear: static function () use ($memcached, $expect): void {
            $memcached->flush();
            $expect(Memcached::RES_SUCCESS);
        },
    );
};
