<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// The two-hundredth get starts a child and hangs.
return static function (string $folder, Limits $limits, array $settings): Store {
    $honest = (require __DIR__ . '/../php_honest/adapter.php')($folder, $limits, $settings);
    $gets = 0;
    $get = static function (string $key) use ($honest, &$gets): mixed {
        if (++$gets === 200) {
            $child = proc_open(['sleep', '3600'], [], $pipes);
            while (true) {
                sleep(3600);
            }
        }
        return ($honest->get)($key);
    };
    return new Store($get, $honest->set, $honest->delete, $honest->close);
};
