<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// A SQLite table through the class SQLite3, with statements that are prepared once.
return static function (string $folder, Limits $limits, array $settings): Store {
    $database = new SQLite3("$folder/lab.sqlite");
    $database->enableExceptions(true);
    $database->busyTimeout(60_000);
    $database->exec('PRAGMA journal_mode = WAL');
    $database->exec('PRAGMA synchronous = OFF');
    $database->exec('CREATE TABLE IF NOT EXISTS entry (name TEXT PRIMARY KEY, content BLOB NOT NULL)');

    $name = $content = null;
    $get = $database->prepare('SELECT content FROM entry WHERE name = ?');
    $set = $database->prepare('INSERT INTO entry (name, content) VALUES (?, ?)
        ON CONFLICT (name) DO UPDATE SET content = excluded.content');
    $delete = $database->prepare('DELETE FROM entry WHERE name = ?');
    foreach ([$get, $set, $delete] as $statement) {
        $statement->bindParam(1, $name, SQLITE3_TEXT);
    }
    $set->bindParam(2, $content, SQLITE3_BLOB);
    return new Store(
        get: static function (string $key) use ($get, &$name): mixed {
            $name = $key;
            $row = $get->execute()->fetchArray(SQLITE3_NUM);
            $get->reset();
            return $row[0] ?? null;
        },
        set: static function (string $key, string $value) use ($set, &$name, &$content): bool {
            $name = $key;
            $content = $value;
            $set->execute();
            return true;
        },
        delete: static function (string $key) use ($database, $delete, &$name): bool {
            $name = $key;
            $delete->execute();
            return $database->changes() > 0;
        },
        close: static function () use ($database, $get, $set, $delete): bool {
            foreach ([$get, $set, $delete] as $statement) {
                $statement->close();
            }
            return $database->close();
        },
        clear: static fn (): bool => $database->exec('DELETE FROM entry'),
    );
};
