"""What are the steps of a computer's life called, and how do engines compare in them? For lifecycle.py and its peer."""

import ctypes
import re
import statistics
import time

from kit import Topic


LIBC = ctypes.CDLL(None)
# kcmp(2) on x86-64, and its question whether two processes have one address space: 0 is yes.
KCMP, KCMP_VM = 312, 1
# The kernel's fields of a process's PSS: its own, of files, and of shared memory, which a guest's is where a process is its
# kernel or its processor.
FIELDS = {"Pss_Anon": "own", "Pss_File": "files", "Pss_Shmem": "shared"}


class Step:
    """Each step's name, the same whoever takes it: rows of one name are compared."""

    CREATE = "create, until it is usable"
    IDLE = "idle"
    STOP = "stop"
    BOOT = "boot of a disk, until it is usable"
    SUSPEND = "suspend"
    RESUME = "resume, until it is usable"
    CLONE = "clone of a running one with 200 MB of its own, until usable"
    FORK = "fork with memory, until it is usable"
    KEEP_DISK = "snapshot of the disk"
    BACK_TO_DISK = "back to a snapshot of the disk, until it is usable"
    KEEP_MEMORY = "snapshot with memory"
    BACK_TO_MEMORY = "back to a snapshot with memory, until it is usable"
    LAUNCH = "launch from a snapshot with memory, until it is usable"
    LAUNCH_4 = "4 launches from it at once, until all are usable"
    CLICK = "a click"
    SHOT = "a screenshot that has not changed"
    COMMAND = "bash of true"
    COMPUTE = "in it: 3,000,000 multiplications in Python"
    CALLS = "in it: 100,000 calls of the kernel from Python"
    ADOPT = "a killed controller's start, until {} computers are usable"


def span(work):
    """Milliseconds that work takes."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


class Steps:
    """Rows of one engine: the spans of a step, and the megabytes that it left on the disk."""

    def __init__(self, name):
        self.name, self.medians, self.idle = name, {}, None
        self.topic = Topic(f"the life of a computer: {name} (ms)", "median", "best", "worst", "MB disk")

    def row(self, step, spans, disk=None):
        self.medians[step] = statistics.median(spans)
        self.topic.row(step, self.medians[step], min(spans), max(spans), disk)

    def memory(self, step, pids, charged=None):
        """Megabytes of processes: their PSS, in which shared pages count by their share, and what of it is what."""
        pids = spaces(pids)
        self.idle = (step, pss(pids, "Pss"), *(pss(pids, field) for field in FIELDS), charged)

    def skip(self, step, why):
        told = re.search(r'"error":"([^"]*)"', str(why))
        self.topic.skip(step, (told.group(1) if told else str(why))[:100])

    def keep(self):
        self.topic.keep()
        if self.idle:
            topic = Topic(f"the memory of a computer: {self.name} (MB)", "PSS", *FIELDS.values(), "charged")
            topic.row(*self.idle)
            topic.keep()


def spaces(pids):
    """One process of each address space: gVisor's threads are processes to the host, and each tells of all their memory."""
    found = []
    for pid in pids:
        if all(LIBC.syscall(KCMP, int(pid), int(other), KCMP_VM, 0, 0) for other in found):
            found.append(pid)
    return found


def pss(pids, field):
    """Megabytes of address spaces, by one field of the kernel's `smaps_rollup`."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith(f"{field}:"))
        except (FileNotFoundError, ProcessLookupError):
            # It ended meanwhile, or has no memory of its own.
            pass
    return total * 1024 / 1e6


def compare(engines, peer):
    """How many times as quick as the peer's are the engines' steps? `-` where one of both has none."""
    topic = Topic(f"times as quick as {peer.name}", *(engine.name.split()[-1] for engine in engines))
    for step, theirs in peer.medians.items():
        ours = (engine.medians.get(step) for engine in engines)
        topic.row(step, *(theirs / median if median else None for median in ours))
    topic.keep()
