<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// Every tenth overwrite is acknowledged but not done, so the old value is kept.
return static function (string $folder, Limits $limits, array $settings): Store {
    $honest = (require __DIR__ . '/../php_honest/adapter.php')($folder, $limits, $settings);
    $overwrites = 0;
    $set = static function (string $key, string|array $value) use ($honest, &$overwrites): bool {
        if (($honest->get)($key) !== null && ++$overwrites % 10 === 0) {
            return true;
        }
        return ($honest->set)($key, $value);
    };
    return new Store($honest->get, $set, $honest->delete, $honest->close);
};
