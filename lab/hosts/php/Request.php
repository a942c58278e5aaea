<?php

declare(strict_types=1);

namespace Lab\Host;

use InvalidArgumentException;
use JsonException;

/** A request (see PROTOCOL.md): the verbs, and the fields of each. */
final class Request
{
    private const FIELDS = [
        'load' => [
            'adapter' => 'string', 'distribution' => 'string', 'settings' => 'array', 'seed' => 'integer',
            'worker' => 'integer', 'workers' => 'integer', 'keys' => 'string', 'value' => 'string',
            'phases' => 'array',
        ],
        'open' => ['folder' => 'string', 'entries_max' => 'integer', 'bytes_max' => 'integer'],
        'probe_write' => [],
        'probe_read' => ['workers' => 'array'],
        'prepare' => [
            'phase' => 'integer', 'measure' => 'string', 'warmup' => 'integer', 'block' => 'integer',
            'stretch' => 'integer', 'batch' => 'integer', 'seconds_max' => 'number',
        ],
        'run' => ['start_ns' => 'integer', 'durations' => 'string'],
        'replay' => ['phase' => 'integer', 'start' => 'integer', 'stop' => 'integer'],
        'clear' => [],
        'close' => [],
    ];
    private const PHASE_FIELDS = ['name' => 'string', 'streams' => 'array'];
    private const STREAM_FIELDS = ['path' => 'string', 'base' => 'integer'];

    /** @param array<string, mixed> $fields all fields of the verb, each of its type */
    private function __construct(public readonly string $verb, public readonly array $fields)
    {
    }

    /** @throws InvalidArgumentException if `line` is not a request */
    public static function decode(string $line): self
    {
        try {
            $fields = json_decode($line, true, 16, JSON_THROW_ON_ERROR);
        } catch (JsonException $error) {
            throw new InvalidArgumentException("the request is not JSON: {$error->getMessage()}");
        }
        if (!is_array($fields) || !is_string($fields['verb'] ?? null)) {
            throw new InvalidArgumentException('the request has no verb');
        }
        $verb = $fields['verb'];
        unset($fields['verb']);
        if (!isset(self::FIELDS[$verb])) {
            throw new InvalidArgumentException("there is no verb $verb");
        }
        self::expect($verb, $fields, self::FIELDS[$verb]);
        foreach ($fields['phases'] ?? [] as $phase) {
            self::expect('a phase', $phase, self::PHASE_FIELDS);
            foreach ($phase['streams'] as $stream) {
                self::expect('a stream', $stream, self::STREAM_FIELDS);
            }
        }
        return new self($verb, $fields);
    }

    /** @param array<string, string> $expected */
    private static function expect(string $what, mixed $fields, array $expected): void
    {
        if (!is_array($fields)) {
            throw new InvalidArgumentException("$what is not an object");
        }
        foreach (array_diff_key($fields, $expected) as $name => $_) {
            throw new InvalidArgumentException("$what has no field $name");
        }
        foreach ($expected as $name => $type) {
            $value = $fields[$name] ?? throw new InvalidArgumentException("$what lacks the field $name");
            $fits = match ($type) {
                'string' => is_string($value),
                'integer' => is_int($value),
                'number' => is_int($value) || is_float($value),
                'array' => is_array($value),
            };
            if (!$fits) {
                throw new InvalidArgumentException("$what needs a field $name of the type $type");
            }
        }
    }
}
