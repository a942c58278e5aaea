<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// Verbs that do nothing: they measure the host's loop, its clock and a function call.
return static fn (string $folder, Limits $limits, array $settings): Store => new Store(
    get: static fn (string $key): mixed => null,
    set: static fn (string $key, string|array $value): bool => true,
    delete: static fn (string $key): bool => false,
    close: static fn (): bool => true,
    getMany: static fn (array $keys): array => array_fill(0, count($keys), null),
    clear: static fn (): bool => true,
);
