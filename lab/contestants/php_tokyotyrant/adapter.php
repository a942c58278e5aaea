<?php

declare(strict_types=1);

// Tokyo Tyrant speaks memcached's protocol.
return require __DIR__ . '/../php_memcache/adapter.php';
