"""Names of the lifecycle steps, tables of their times, and the comparison of engines."""

import ctypes
import re
import statistics
import time

from support import Table


LIBC = ctypes.CDLL(None)
# kcmp(2) on x86-64. KCMP_VM compares the address spaces of two processes: 0 means that they are the same.
KCMP, KCMP_VM = 312, 1
# PSS fields of a process in the kernel: anonymous, files, shared memory. Where a host process is a guest's kernel or virtual
# processor, the guest's memory counts as shared memory.
FIELDS = {"Pss_Anon": "own", "Pss_File": "files", "Pss_Shmem": "shared"}


class Step:
    """Step names. They are the same for all engines and for virsh, because rows of one name are compared."""

    CREATE = "create, until it is usable"
    IDLE = "idle"
    STOP = "stop"
    BOOT = "boot of a disk, until it is usable"
    SUSPEND = "suspend"
    RESUME = "resume, until it is usable"
    CLONE = "clone of a running one with 200 MB of data, until usable"
    FORK = "fork with memory, until it is usable"
    SNAPSHOT_DISK = "snapshot of the disk"
    ROLLBACK_DISK = "rollback to a snapshot of the disk, until it is usable"
    SNAPSHOT_MEMORY = "snapshot with memory"
    ROLLBACK_MEMORY = "rollback to a snapshot with memory, until it is usable"
    LAUNCH = "launch from a snapshot with memory, until it is usable"
    LAUNCH_4 = "4 launches from it in parallel, until all are usable"
    CLICK = "a click"
    SHOT = "an unchanged screenshot"
    COMMAND = "bash `true`"
    COMPUTE = "in the computer: 3,000,000 multiplications in Python"
    CALLS = "in the computer: 100,000 system calls from Python"
    ADOPT = "restart of a killed controller, until {} computers are usable"


def duration(work):
    """Milliseconds of a call of `work`."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


class Steps:
    """The table of one engine: the times of each step, and the megabytes that it left on the disk."""

    def __init__(self, name):
        self.name, self.medians, self.idle = name, {}, None
        self.table = Table(f"lifecycle of a computer: {name} (ms)", "median", "best", "worst", "MB disk")

    def row(self, step, durations, disk=None):
        self.medians[step] = statistics.median(durations)
        self.table.row(step, self.medians[step], min(durations), max(durations), disk)

    def memory(self, step, pids, charged=None):
        """Megabytes of processes: their PSS, its parts by kind, and what the control groups are charged with."""
        pids = distinct_address_spaces(pids)
        self.idle = (step, pss(pids, "Pss"), *(pss(pids, field) for field in FIELDS), charged)

    def skip(self, step, why):
        error = re.search(r'"error":"([^"]*)"', str(why))
        self.table.skip(step, (error.group(1) if error else str(why))[:100])

    def save(self):
        self.table.save()
        if self.idle:
            table = Table(f"memory of a computer: {self.name} (MB)", "PSS", *FIELDS.values(), "charged")
            table.row(*self.idle)
            table.save()


def distinct_address_spaces(pids):
    """One process of each address space: gVisor's threads are processes of the host, and each reports all of their memory."""
    found = []
    for pid in pids:
        if all(LIBC.syscall(KCMP, int(pid), int(other), KCMP_VM, 0, 0) for other in found):
            found.append(pid)
    return found


def pss(pids, field):
    """Megabytes of processes by one field of the kernel's `smaps_rollup`."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith(f"{field}:"))
        except (FileNotFoundError, ProcessLookupError):
            # The process has ended, or has no memory of its own.
            pass
    return total * 1024 / 1e6


def compare(engines, peer):
    """Adds a table of the ratios of the peer's medians to each engine's; `-` where one of them lacks a step."""
    table = Table(f"times as fast as {peer.name}", *(engine.name.split()[-1] for engine in engines))
    for step, theirs in peer.medians.items():
        ours = (engine.medians.get(step) for engine in engines)
        table.row(step, *(theirs / median if median else None for median in ours))
    table.save()
