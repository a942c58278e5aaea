<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// Two adapters, one in front of the other. The near level has only values that the far level has.
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
            // If the near level has no room, it must not keep the old value.
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
        // One request to the far level for everything that the near level lacks.
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
