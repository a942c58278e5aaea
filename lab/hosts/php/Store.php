<?php

declare(strict_types=1);

namespace Lab\Host;

use Closure;

/**
 * An open store: the verbs besides open. This is the contract between the PHP host and the contestants
 * written in PHP. It must not know any of them, nor how they are measured.
 *
 * `adapter.php` in a contestant's folder returns
 *
 *     Closure(string $folder, Limits $limits, array<string, string> $settings): Store
 *
 * which opens the store in `folder`, and creates it if it does not exist.
 *
 *     get(string $key): mixed          the value stored last; null or false if there is none
 *     set(string $key, $value): mixed  false if the store refused; anything else if it stored
 *     delete(string $key): mixed       true or 1 if it deleted something, else false or 0
 *     close(): mixed                   frees the process's resources, keeps the store's data
 *     clear(): mixed                   empties the store
 *     getMany(array $keys): array      the answers of get for each key, as a list in their order
 *
 * `getMany` is one request for several keys. Without it, the host requests one key after the other. A
 * store that cannot be emptied in one operation omits `clear`.
 *
 * A value is a string, or an array of strings if the contestant takes complex values.
 *
 * The verbs are closures, so that a library's own function or method, such as `apcu_fetch(...)`, needs no
 * wrapper. (Calling a closure written in PHP takes about 8 ns more than calling a method of an object;
 * calling a library's own function takes 6 ns less.) No value is false, so both null and false can mean a
 * miss.
 *
 * A warning or notice is thrown as an ErrorException and ends the cell, unless the adapter silences it
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
