<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// Every fiftieth hit has its last bit flipped, or that of its last field.
return static function (string $folder, Limits $limits, array $settings): Store {
    $honest = (require __DIR__ . '/../php_honest/adapter.php')($folder, $limits, $settings);
    $hits = 0;
    $get = static function (string $key) use ($honest, &$hits): mixed {
        $value = ($honest->get)($key);
        if ($value === null || ++$hits % 50 !== 0) {
            return $value;
        }
        $last = is_string($value) ? $value : end($value);
        $last[-1] = chr(ord($last[-1]) ^ 1);
        return is_string($value) ? $last : [...$value, array_key_last($value) => $last];
    };
    return new Store($get, $honest->set, $honest->delete, $honest->close);
};
