<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// Yac's own methods. Its sizes are given to the interpreter, when it starts.
return static function (string $folder, Limits $limits, array $settings): Store {
    $yac = new Yac();
    $yac->flush();
    return new Store(
        get: $yac->get(...),
        set: static fn (string $key, mixed $value): bool => @$yac->set($key, $value),
        delete: static fn (string $key): bool => $yac->get($key) !== false && $yac->delete($key),
        close: $yac->flush(...),
        clear: $yac->flush(...),
    );
};
