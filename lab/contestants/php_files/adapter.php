<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// One file per entry, in an in-memory file system that is mounted on the folder. A value is written to
// a separate file and then renamed, so that a reader never sees half of it.
return static function (string $folder, Limits $limits, array $settings): Store {
    // A name that no key can have and no other process uses.
    $new = "$folder/%new-" . getmypid();
    $write = static function (string $path, string $value): bool {
        if (@file_put_contents($path, $value) === strlen($value)) {
            return true;
        }
        $reason = error_get_last()['message'] ?? 'no reason given';
        @unlink($path);
        error_clear_last();
        if (!preg_match('/No space left on device|out of free disk space/', $reason)) {
            throw new RuntimeException("set failed: $reason");
        }
        return false;
    };
    return new Store(
        get: static function (string $key) use ($folder): mixed {
            $value = @file_get_contents("$folder/" . rawurlencode($key));
            if ($value === false) {
                $reason = error_get_last()['message'] ?? 'no reason given';
                error_clear_last();
                if (!str_contains($reason, 'No such file or directory')) {
                    throw new RuntimeException("get failed: $reason");
                }
            }
            return $value;
        },
        set: static function (string $key, string $value) use ($folder, $new, $write): bool {
            $path = "$folder/" . rawurlencode($key);
            // Without room for both values, delete the old one first.
            return ($write($new, $value) || (@unlink($path) && $write($new, $value)))
                && rename($new, $path);
        },
        delete: static fn (string $key): bool => @unlink("$folder/" . rawurlencode($key)),
        close: static fn (): bool => true,
    );
};
