<?php

declare(strict_types=1);

// Valkey accepts Redis clients unchanged.
return require __DIR__ . '/../php_redis/adapter.php';
