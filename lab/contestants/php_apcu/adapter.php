<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// APCu's own functions. Its size is an argument of the interpreter.
return static function (string $folder, Limits $limits, array $settings): Store {
    if (!apcu_enabled()) {
        throw new RuntimeException('APCu is off; it needs -d apc.enable_cli=1');
    }
    apcu_clear_cache();
    $ttl = (int) ceil((float) ($settings['ttl_seconds'] ?? 0));
    return new Store(
        get: apcu_fetch(...),
        set: $ttl === 0
            ? apcu_store(...)
            : static fn (string $key, mixed $value): bool => apcu_store($key, $value, $ttl),
        delete: apcu_delete(...),
        close: apcu_clear_cache(...),
        getMany: static function (array $keys): array {
            // A key such as "12" is a text in APCu's array, but PHP looks up the number 12.
            $found = [];
            foreach (apcu_fetch($keys) as $key => $value) {
                $found[$key] = $value;
            }
            $values = [];
            foreach ($keys as $key) {
                $values[] = $found[$key] ?? null;
            }
            return $values;
        },
        clear: apcu_clear_cache(...),
    );
};
