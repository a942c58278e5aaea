<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// A key whose characters add up to a multiple of ten is silently not stored.
return static function (string $folder, Limits $limits, array $settings): Store {
    $honest = (require __DIR__ . '/../php_honest/adapter.php')($folder, $limits, $settings);
    $set = static function (string $key, string|array $value) use ($honest): bool {
        return array_sum(array_map('ord', str_split($key))) % 10 === 0 || ($honest->set)($key, $value);
    };
    return new Store($honest->get, $set, $honest->delete, $honest->close);
};
