<?php

declare(strict_types=1);

// Valkey takes Redis' clients as they are.
return require __DIR__ . '/../php_redis/adapter.php';
