<?php

declare(strict_types=1);

namespace Lab\Host;

use FFI;
use RuntimeException;

/**
 * Linux calls that PHP itself does not have: to die with the parent, to move a file descriptor, and to
 * read the CPU time in nanoseconds. Must not know what the host does.
 */
final class Kernel
{
    private const PR_SET_PDEATHSIG = 1;
    private const SIGKILL = 9;
    private const CLOCK_PROCESS_CPUTIME_ID = 2;
    private const OUTPUT = 1;
    private const ERROR_OUTPUT = 2;

    private readonly FFI $libc;
    private readonly FFI\CData $time;
    private readonly FFI\CData $timePointer;

    /** @throws RuntimeException if the extension FFI is missing or not allowed */
    public function __construct()
    {
        if (!extension_loaded('ffi')) {
            throw new RuntimeException('the PHP host needs the extension ffi; Debian has it in php-common');
        }
        $this->libc = FFI::cdef('
            struct timespec { long seconds; long nanoseconds; };
            int clock_gettime(int clock, struct timespec *time);
            int prctl(int option, unsigned long argument);
            int getppid(void);
            int getpid(void);
            int kill(int process, int signal);
            int dup(int descriptor);
            int dup2(int from, int to);
        ');
        $this->time = $this->libc->new('struct timespec');
        $this->timePointer = FFI::addr($this->time);
    }

    /** Make the kernel kill this process when its parent, process `parent`, ends. */
    public function dieWithParent(int $parent): void
    {
        if ($this->libc->prctl(self::PR_SET_PDEATHSIG, self::SIGKILL) !== 0) {
            throw new RuntimeException('the kernel refused a death signal');
        }
        if ($this->libc->getppid() !== $parent) {
            // The parent ended before the request.
            $this->libc->kill($this->libc->getpid(), self::SIGKILL);
        }
    }

    /**
     * Send all further output to the error output.
     *
     * @return resource the former standard output, for the replies
     */
    public function takeOutput(): mixed
    {
        $descriptor = $this->libc->dup(self::OUTPUT);
        if ($descriptor < 0 || $this->libc->dup2(self::ERROR_OUTPUT, self::OUTPUT) < 0) {
            throw new RuntimeException('the output could not be moved');
        }
        return fopen("php://fd/$descriptor", 'wb');
    }

    /** The CPU time of this process so far, user and system, in nanoseconds. */
    public function cpuNs(): int
    {
        $this->libc->clock_gettime(self::CLOCK_PROCESS_CPUTIME_ID, $this->timePointer);
        return $this->time->seconds * 1_000_000_000 + $this->time->nanoseconds;
    }
}
