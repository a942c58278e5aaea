<?php

/**
 * Reads requests from standard input, executes them one by one, answers on standard output.
 *
 * Started as `php host.php PARENT`, where PARENT is the process that the host must not outlive.
 */

declare(strict_types=1);

namespace Lab\Host;

use ErrorException;
use Throwable;

$startedNs = hrtime(true);

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, __NAMESPACE__ . '\\')) {
        require __DIR__ . '/' . substr($class, strlen(__NAMESPACE__) + 1) . '.php';
    }
});

// A deprecation is not an error: PHP's own handler writes it to the error output.
error_reporting(E_ALL);
set_error_handler(static function (int $level, string $message, string $file, int $line): bool {
    if ((error_reporting() & $level) !== 0) {
        throw new ErrorException($message, 0, $level, $file, $line);
    }
    // Silenced by the adapter, which may ask for it with error_get_last().
    return false;
}, E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);

$kernel = new Kernel();
$kernel->dieWithParent((int) $argv[1]);
$replies = $kernel->takeOutput();
$worker = new Worker($kernel, $startedNs);
while (($line = fgets(STDIN)) !== false) {
    try {
        $reply = $worker->obey(Request::decode($line));
    } catch (Throwable $error) {
        fwrite(STDERR, "$error\n");
        $reply = Reply::failed($error);
    }
    fwrite($replies, Reply::encode($reply));
}
