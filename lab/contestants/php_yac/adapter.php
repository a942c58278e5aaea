<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// Yac's own methods. Its sizes are arguments of the interpreter. With the setting `pads`, every value is
// padded to a multiple of that many bytes; the last four bytes are its length.
return static function (string $folder, Limits $limits, array $settings): Store {
    $yac = new Yac();
    $delete = static fn (string $key): bool => $yac->get($key) !== false && $yac->delete($key);
    $multiple = (int) ($settings['pads'] ?? 0);
    if ($multiple === 0) {
        return new Store(
            get: $yac->get(...),
            set: static fn (string $key, mixed $value): bool => @$yac->set($key, $value),
            delete: $delete,
            close: $yac->flush(...),
        );
    }
    return new Store(
        get: static function (string $key) use ($yac): string|false {
            $padded = $yac->get($key);
            return $padded === false ? false : substr($padded, 0, unpack('V', $padded, strlen($padded) - 4)[1]);
        },
        set: static function (string $key, string $value) use ($yac, $multiple): bool {
            $length = strlen($value);
            $padding = $multiple - 1 - ($length + 3) % $multiple;
            return @$yac->set($key, $value . str_repeat("\0", $padding) . pack('V', $length));
        },
        delete: $delete,
        close: $yac->flush(...),
        clear: $yac->flush(...),
    );
};
