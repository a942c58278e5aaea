<?php

declare(strict_types=1);

use Lab\Host\Limits;
use Lab\Host\Store;

// An InnoDB table through mysqli, with statements that are prepared once.
//
// Without an index, a set only adds a row, as in the original, and a get reads the table from its newest
// row until it finds the key.
return static function (string $folder, Limits $limits, array $settings): Store {
    // Any error throws.
    mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
    $database = new mysqli(
        $settings['host'] ?? 'localhost',
        $settings['user'],
        '',
        '',
        (int) ($settings['port'] ?? 0),
        $settings['socket'] ?? null,
    );
    // The log is written to the disk once a second. A cache may lose entries but must not be wrong.
    $database->query('SET GLOBAL innodb_flush_log_at_trx_commit = 2');
    $database->query('CREATE DATABASE IF NOT EXISTS lab');
    $database->select_db('lab');
    [$number, $index, $order, $overwrite] = match ($settings['index']) {
        'primary key' => ['', 'PRIMARY KEY', '', 'ON DUPLICATE KEY UPDATE content = VALUES(content)'],
        'none' => ['number BIGINT AUTO_INCREMENT PRIMARY KEY,', '', 'ORDER BY number DESC LIMIT 1', ''],
    };
    $database->query("CREATE TABLE IF NOT EXISTS entry (
        $number
        name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL $index,
        content LONGBLOB NOT NULL
    ) ENGINE = InnoDB");

    $name = $given = null;
    $get = $database->prepare("SELECT content FROM entry WHERE name = ? $order");
    $get->bind_param('s', $name);
    $set = $database->prepare("INSERT INTO entry (name, content) VALUES (?, ?) $overwrite");
    $set->bind_param('ss', $name, $given);
    $delete = $database->prepare('DELETE FROM entry WHERE name = ?');
    $delete->bind_param('s', $name);
    return new Store(
        get: static function (string $key) use ($get, &$name): ?string {
            $name = $key;
            $get->execute();
            // Freeing a result also undoes the binding.
            $get->bind_result($found);
            $answer = $get->fetch() ? $found : null;
            $get->free_result();
            return $answer;
        },
        set: static function (string $key, string $value) use ($set, &$name, &$given): bool {
            $name = $key;
            $given = $value;
            return $set->execute();
        },
        delete: static function (string $key) use ($delete, &$name): bool {
            $name = $key;
            $delete->execute();
            return $delete->affected_rows > 0;
        },
        close: $database->close(...),
        clear: static fn (): mixed => $database->query('TRUNCATE TABLE entry'),
    );
};
