<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// Every fiftieth hit has its last bit flipped.
return static function (string $folder, Limits $limits, array $settings): Store {
    $honest = (require __DIR__ . '/../php_honest/adapter.php')($folder, $limits, $settings);
    $hits = 0;
    $get = static function (string $key) use ($honest, &$hits): mixed {
        $value = ($honest->get)($key);
        if (is_string($value) && ++$hits % 50 === 0) {
            $value[-1] = chr(ord($value[-1]) ^ 1);
        }
        return $value;
    };
    return new Store($get, $honest->set, $honest->delete, $honest->close);
};
