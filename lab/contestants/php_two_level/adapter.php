<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// Two adapters, one before the other. The near level never has what the far level does not.
return static function (string $folder, Limits $limits, array $settings): Store {
    $near = (require __DIR__ . '/../php_apcu/adapter.php')($folder, $limits, $settings);
    $far = (require __DIR__ . "/../{$settings['far']}/adapter.php")($folder, $limits, $settings);
    [$nearGet, $nearSet, $nearDelete] = [$near->get, $near->set, $near->delete];
    [$farGet, $farSet, $farDelete] = [$far->get, $far->set, $far->delete];
    return new Store(
        get: static function (string $key) use ($nearGet, $nearSet, $farGet): mixed {
            $value = $nearGet($key);
            if ($value === false) {
                $value = $farGet($key);
                if (is_string($value)) {
                    $nearSet($key, $value);
                }
            }
            return $value;
        },
        set: static function (string $key, string $value) use ($nearSet, $nearDelete, $farSet): bool {
            $stored = $farSet($key, $value);
            // Where the near level has no room, the old value must not stay there.
            if (!$stored || !$nearSet($key, $value)) {
                $nearDelete($key);
            }
            return $stored;
        },
        delete: static function (string $key) use ($nearDelete, $farDelete): bool {
            $nearDelete($key);
            return $farDelete($key);
        },
        close: static function () use ($near, $far): void {
            ($near->close)();
            ($far->close)();
        },
        // What the near level does not have is one request to the far one.
        getMany: static function (array $keys) use ($near, $far, $nearSet): array {
            $values = ($near->getMany)($keys);
            $missing = array_keys($values, null, true);
            if ($missing !== []) {
                $asked = array_map(static fn (int $index): string => $keys[$index], $missing);
                foreach (($far->getMany)($asked) as $place => $value) {
                    if ($value !== null) {
                        $nearSet($asked[$place], $value);
                        $values[$missing[$place]] = $value;
                    }
                }
            }
            return $values;
        },
    );
};
