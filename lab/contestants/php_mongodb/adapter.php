<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;
use MongoDB\BSON\Binary;
use MongoDB\Driver\BulkWrite;
use MongoDB\Driver\Manager;
use MongoDB\Driver\Query;
use MongoDB\Driver\WriteResult;

// A collection with the key as its _id, through the extension's own classes. It throws on any error.
return static function (string $folder, Limits $limits, array $settings): Store {
    $manager = new Manager("mongodb://{$settings['host']}:{$settings['port']}/");
    $write = static function (BulkWrite $bulk) use ($manager): WriteResult {
        return $manager->executeBulkWrite('lab.entry', $bulk);
    };
    return new Store(
        get: static function (string $key) use ($manager): ?string {
            $found = $manager->executeQuery('lab.entry', new Query(['_id' => $key], ['limit' => 1]));
            foreach ($found as $document) {
                return $document->content->getData();
            }
            return null;
        },
        set: static function (string $key, string $value) use ($write): bool {
            $bulk = new BulkWrite();
            $document = ['_id' => $key, 'content' => new Binary($value, Binary::TYPE_GENERIC)];
            $bulk->update(['_id' => $key], $document, ['upsert' => true]);
            return $write($bulk)->isAcknowledged();
        },
        delete: static function (string $key) use ($write): bool {
            $bulk = new BulkWrite();
            $bulk->delete(['_id' => $key], ['limit' => true]);
            return $write($bulk)->getDeletedCount() > 0;
        },
        // The extension keeps its connection until the process ends, and cannot close it.
        close: static fn (): bool => true,
        getMany: static function (array $keys) use ($manager): array {
            $found = [];
            foreach ($manager->executeQuery('lab.entry', new Query(['_id' => ['$in' => $keys]])) as $document) {
                $found[$document->_id] = $document->content->getData();
            }
            $values = [];
            foreach ($keys as $key) {
                $values[] = $found[$key] ?? null;
            }
            return $values;
        },
    );
};
