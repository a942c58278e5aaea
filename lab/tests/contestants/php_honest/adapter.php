<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// An array without any limit: what is stored is there. It is also a chatty one.
return static function (string $folder, Limits $limits, array $settings): Store {
    echo "an adapter may print: this must not disturb the protocol\n";
    $entries = [];
    return new Store(
        get: static function (string $key) use (&$entries): mixed {
            return $entries[$key] ?? null;
        },
        set: static function (string $key, string|array $value) use (&$entries): bool {
            $entries[$key] = $value;
            return true;
        },
        delete: static function (string $key) use (&$entries): bool {
            $found = isset($entries[$key]);
            unset($entries[$key]);
            return $found;
        },
        close: static fn (): bool => true,
        clear: static function () use (&$entries): void {
            $entries = [];
        },
    );
};
