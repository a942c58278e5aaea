<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// XCache's own functions. Its size is an argument of the interpreter.
return static function (string $folder, Limits $limits, array $settings): Store {
    return new Store(
        get: xcache_get(...),
        set: xcache_set(...),
        delete: static fn (string $key): bool => xcache_isset($key) && xcache_unset($key),
        close: static function (): void {
            xcache_clear_cache(XC_TYPE_VAR, 0);
        },
    );
};
