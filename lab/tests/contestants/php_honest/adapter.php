<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// One file per entry, without a limit: it keeps everything. It also prints to standard output.
return static function (string $folder, Limits $limits, array $settings): Store {
    echo "an adapter may print: this must not disturb the protocol\n";
    return new Store(
        get: static function (string $key) use ($folder): mixed {
            $stored = @file_get_contents("$folder/$key");
            return $stored === false ? null : unserialize($stored);
        },
        // Other processes find the old or the new file, never a part of it.
        set: static function (string $key, string|array $value) use ($folder): bool {
            $new = "$folder/.$key-" . getmypid();
            file_put_contents($new, serialize($value));
            return rename($new, "$folder/$key");
        },
        delete: static fn (string $key): bool => @unlink("$folder/$key"),
        close: static fn (): bool => true,
        clear: static function () use ($folder): void {
            array_map(unlink(...), glob("$folder/*"));
        },
    );
};
