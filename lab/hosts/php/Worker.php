<?php

declare(strict_types=1);

namespace Lab\Host;

use Closure;
use InvalidArgumentException;
use RuntimeException;

use function hrtime;

/**
 * One worker: the adapter, the streams, the open store, and its knowledge about that store.
 *
 * Owns the execution of each verb of PROTOCOL.md. Must not know the runner's plan.
 */
final class Worker
{
    private readonly Loop $loop;
    private ?Closure $adapter = null;
    /** @var array<string, string> */
    private array $settings = [];
    private ?Values $values = null;
    private ?Keys $keys = null;
    private ?Phases $phases = null;
    private ?Stored $stored = null;
    private bool $complex = false;
    private int $worker = 0;
    private int $workers = 1;
    private ?Store $store = null;
    private ?Verifier $verifier = null;
    private ?Pass $pass = null;
    private ?Probe $probe = null;
    private ?Replay $replay = null;
    private int $phaseLast = -1;

    /** @param int $programStartedNs the clock at the start of the program */
    public function __construct(Kernel $kernel, private readonly int $programStartedNs)
    {
        $this->loop = new Loop($kernel);
    }

    /**
     * Execute a request.
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
            'prepare' => $this->prepare($fields),
            'run' => $this->run($fields['start_ns'], $fields['durations']),
            'replay' => $this->replay($fields),
            'clear' => $this->clear(),
            'close' => $this->close(),
        };
    }

    /** @param array<string, mixed> $fields */
    private function load(array $fields): array
    {
        $extension = $fields['distribution'];
        if ($extension !== '' && !extension_loaded($extension)) {
            return Reply::missing("not installed: the PHP extension $extension");
        }
        $startedNs = hrtime(true);
        $adapter = require $fields['adapter'];
        $createNs = hrtime(true) - $startedNs;
        if (!$adapter instanceof Closure) {
            throw new RuntimeException("{$fields['adapter']} does not return a closure");
        }
        $this->adapter = $adapter;
        $this->settings = $fields['settings'];
        ['worker' => $this->worker, 'workers' => $this->workers] = $fields;
        $this->complex = match ($fields['value']) {
            'binary' => false,
            'complex' => true,
            default => throw new InvalidArgumentException("there are no values called {$fields['value']}"),
        };
        $this->values = new Values($fields['seed'], $this->complex);
        $this->keys = new Keys($fields['keys']);
        $this->phases = new Phases($fields['phases'], $this->worker);
        $this->stored = new Stored($this->phases, $this->values);
        return [
            'event' => 'loaded',
            'runtime' => 'PHP ' . PHP_VERSION,
            'version' => $extension === '' ? '' : (string) phpversion($extension),
            'started_ns' => $this->programStartedNs,
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
        // Earlier stores were in another folder or on another server.
        $this->verifier = new Verifier(
            self::there($this->phases),
            self::there($this->stored),
            self::there($this->values),
            self::there($this->keys),
            $this->workers,
        );
        $this->probe = $this->replay = null;
        $this->phaseLast = -1;
        return ['event' => 'opened', 'elapsed_ns' => $elapsedNs];
    }

    private function clear(): array
    {
        $clear = self::there($this->store)->clear;
        $startedNs = hrtime(true);
        $elapsedNs = 0;
        if ($clear !== null) {
            $clear();
            $elapsedNs = hrtime(true) - $startedNs;
        }
        return ['event' => 'cleared', 'cleared' => $clear !== null, 'elapsed_ns' => $elapsedNs];
    }

    private function close(): array
    {
        $close = self::there($this->store)->close;
        $startedNs = hrtime(true);
        $close();
        $this->store = $this->verifier = $this->probe = $this->pass = null;
        unset($close);
        $elapsedNs = hrtime(true) - $startedNs;
        return ['event' => 'closed', 'elapsed_ns' => $elapsedNs];
    }

    private function probe(): Probe
    {
        return $this->probe ??= new Probe(
            self::there($this->store),
            self::there($this->values),
            $this->complex,
        );
    }

    /** @param array<string, mixed> $fields */
    private function prepare(array $fields): array
    {
        $phase = $fields['phase'];
        if ($phase <= $this->phaseLast) {
            // The checks rely on the order of the phases.
            throw new RuntimeException("phase $phase was requested after phase $this->phaseLast");
        }
        $this->pass = new Pass(
            self::there($this->store),
            self::there($this->phases)->own($phase),
            self::there($this->keys),
            self::there($this->values),
            self::there($this->verifier),
            $this->loop,
            $fields,
        );
        $this->phaseLast = $phase;
        return ['event' => 'prepared'];
    }

    private function run(int $startNs, string $durations): array
    {
        [$pass, $this->pass] = [self::there($this->pass), null];
        return $pass->run($startNs, $durations);
    }

    /** @param array<string, mixed> $fields */
    private function replay(array $fields): array
    {
        $store = self::there($this->store);
        $this->replay ??= new Replay($this->phases->own($fields['phase']), $this->keys, $this->values);
        return $this->replay->run($store, $fields['start'], $fields['stop']);
    }

    /**
     * @template T
     * @param T|null $thing
     * @return T
     */
    private static function there(mixed $thing): mixed
    {
        return $thing ?? throw new RuntimeException(
            'the runner requested a step before the step that prepares it'
        );
    }
}
