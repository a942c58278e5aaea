<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// A file for each entry, in a file system in memory that was mounted on the folder. A value is written
// beside the old one and takes its place in one step, so that nobody ever reads half of it.
return static function (string $folder, Limits $limits, array $settings): Store {
    // No key becomes this name, and no other process has it.
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
            // Without room for both, the old value goes first: nobody wants it any more.
            return ($write($new, $value) || (@unlink($path) && $write($new, $value)))
                && rename($new, $path);
        },
        delete: static fn (string $key): bool => @unlink("$folder/" . rawurlencode($key)),
        close: static fn (): bool => true,
    );
};
