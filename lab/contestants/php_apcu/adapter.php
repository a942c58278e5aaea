<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// APCu's own functions. Its size is given to the interpreter, when it starts.
return static function (string $folder, Limits $limits, array $settings): Store {
    if (!apcu_enabled()) {
        throw new RuntimeException('APCu is off; it wants -d apc.enable_cli=1');
    }
    apcu_clear_cache();
    return new Store(
        get: apcu_fetch(...),
        set: apcu_store(...),
        delete: apcu_delete(...),
        close: apcu_clear_cache(...),
    );
};
