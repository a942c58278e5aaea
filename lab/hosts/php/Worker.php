<?php

declare(strict_types=1);

namespace Lab\Host;

use Closure;
use InvalidArgumentException;
use RuntimeException;

use function hrtime;

/**
 * One worker: the adapter, the streams, the open store, and what it knows of that.
 *
 * Owns what each verb does, in PROTOCOL.md's words. Must not know the runner's plan.
 */
final class Worker
{
    private readonly Loop $loop;
    private ?Closure $adapter = null;
    /** @var array<string, string> */
    private array $settings = [];
    private ?Values $values = null;
    private ?Keys $keys = null;
    /** @var list<Stream> one for each phase */
    private array $streams = [];
    private bool $complex = false;
    private int $worker = 0;
    private ?Store $store = null;
    private ?Ledger $ledger = null;

    public function __construct(Kernel $kernel)
    {
        $this->loop = new Loop($kernel);
    }

    /**
     * Do what a request asks.
     *
     * @return array<string, mixed> the reply
     */
    public function obey(Request $request): array
    {
        $fields = $request->fields;
        return match ($request->verb) {
            'load' => $this->load($fields),
            'open' => $this->open($fields),
            'probe_write' => $this->probe()->write($this->worker),
            'probe_read' => $this->probe()->read($fields['workers']),
            'run' => $this->pass($fields['phase'])->run($fields),
            'replay' => $this->replay($fields['phase'])->run($fields['folder']),
            'close' => $this->close(),
        };
    }

    /** @param array<string, mixed> $fields */
    private function load(array $fields): array
    {
        if ($fields['workers'] !== 1) {
            throw new InvalidArgumentException('this host checks the answers of one worker only');
        }
        $extension = $fields['distribution'];
        if ($extension !== '' && !extension_loaded($extension)) {
            return Reply::missing("not installed: the PHP extension $extension");
        }
        $startedNs = hrtime(true);
        $adapter = require $fields['adapter'];
        $createNs = hrtime(true) - $startedNs;
        if (!$adapter instanceof Closure) {
            throw new RuntimeException("{$fields['adapter']} returns no closure");
        }
        $this->adapter = $adapter;
        $this->settings = $fields['settings'];
        $this->worker = $fields['worker'];
        $this->complex = match ($fields['value']) {
            'binary' => false,
            'complex' => true,
            default => throw new InvalidArgumentException("there are no values called {$fields['value']}"),
        };
        $this->values = new Values($fields['seed'], $this->complex);
        $this->keys = new Keys($fields['keys']);
        $this->streams = [];
        foreach ($fields['phases'] as $phase) {
            ['path' => $path, 'base' => $base] = $phase['streams'][$this->worker] ?? $phase['streams'][0];
            $this->streams[] = new Stream($path, $base);
        }
        return [
            'event' => 'loaded',
            'runtime' => 'PHP ' . PHP_VERSION,
            'version' => $extension === '' ? '' : (string) phpversion($extension),
            'create_ns' => $createNs,
            'timer_ns' => Loop::timerNs(),
        ];
    }

    /** @param array<string, mixed> $fields */
    private function open(array $fields): array
    {
        $adapter = self::there($this->adapter);
        $limits = new Limits($fields['entries_max'], $fields['bytes_max']);
        $startedNs = hrtime(true);
        $this->store = $adapter($fields['folder'], $limits, $this->settings);
        $elapsedNs = hrtime(true) - $startedNs;
        // What was stored before is in another folder, or was on another server.
        $this->ledger = new Ledger(self::there($this->values), $this->complex);
        return ['event' => 'opened', 'elapsed_ns' => $elapsedNs];
    }

    private function close(): array
    {
        $close = self::there($this->store)->close;
        $startedNs = hrtime(true);
        $close();
        $this->store = $this->ledger = null;
        unset($close);
        $elapsedNs = hrtime(true) - $startedNs;
        return ['event' => 'closed', 'elapsed_ns' => $elapsedNs];
    }

    private function probe(): Probe
    {
        return new Probe(self::there($this->store), self::there($this->values), $this->complex);
    }

    private function pass(int $phase): Pass
    {
        return new Pass(
            self::there($this->store),
            $this->stream($phase),
            self::there($this->keys),
            self::there($this->values),
            self::there($this->ledger),
            $this->loop,
        );
    }

    private function replay(int $phase): Replay
    {
        return new Replay(
            self::there($this->store),
            $this->stream($phase),
            self::there($this->keys),
            self::there($this->values),
            self::there($this->ledger),
        );
    }

    private function stream(int $phase): Stream
    {
        return $this->streams[$phase] ?? throw new InvalidArgumentException("there is no phase $phase");
    }

    /**
     * @template T
     * @param T|null $thing
     * @return T
     */
    private static function there(mixed $thing): mixed
    {
        return $thing ?? throw new RuntimeException(
            'the runner asked for a step before the one that prepares it'
        );
    }
}
