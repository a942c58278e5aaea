<?php

declare(strict_types=1);

namespace Lab\Host;

use Closure;

/**
 * What an adapter opens: the verbs besides open. This is the contract between the PHP host and the
 * contestants written in PHP, and must not know any of them, nor how they are measured.
 *
 * `adapter.php` in a contestant's folder returns
 *
 *     Closure(string $folder, Limits $limits, array<string, string> $settings): Store
 *
 * which opens the store that lives in `folder` and creates it when it is not there.
 *
 *     get(string $key): mixed          the value stored last; null or false when there is none
 *     set(string $key, $value): mixed  false when the store refused; anything else when it stored
 *     delete(string $key): mixed       true or 1 when there was something to delete, else false or 0
 *     close(): mixed                   gives back what the process holds, keeps what the store holds
 *     clear(): mixed                   empties the store
 *     getMany(array $keys): array      what get answers for each key, a list in their order
 *
 * `getMany` is one request for several keys. A store that has none leaves it out, and is asked for one
 * key after the other. A store that cannot be emptied in one operation leaves `clear` out.
 *
 * A value is a string, or an array of strings where the contestant takes complex values.
 *
 * The verbs are closures, because a library's own function or method then goes without a frame of PHP
 * around it: `apcu_fetch(...)` is one. (A call of a closure that is written in PHP takes about 8 ns more
 * than that of a method of an object, and one of a library's own function 6 ns less.) No library that we
 * know stores false as anything but a value, and no value is false, so a miss may be either.
 *
 * A warning or a notice is thrown as an ErrorException, and ends the cell, unless the adapter silences it
 * with `@` and looks at the answer. A documented refusal is the answer false.
 */
final class Store
{
    public function __construct(
        public readonly Closure $get,
        public readonly Closure $set,
        public readonly Closure $delete,
        public readonly Closure $close,
        public readonly ?Closure $getMany = null,
        public readonly ?Closure $clear = null,
    ) {
    }
}
