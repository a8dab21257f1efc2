#!/usr/bin/env python3
"""What bounds the starts and wakes of computers: processor time of creates, phases with a browser, memory by program.

usage: floors.py HOTDESK_BINARY IMAGE_FOLDER

Prints tables in Markdown for docs/performance.md. Use a quiet machine: processor time is that of the whole host, less that of
an idle time as long. The image must have a browser (the full one). Everything is removed at the end.
"""

import os
import statistics
import sys
import time

from controller import Controller
from lifecycle import SETTLE_SECONDS, groups, processes
from ready import BROWSER
from steps import distinct_address_spaces, pss
from support import QUICK
from waterfall import BOOTS, ENGINES, LOG, ROUNDS, RUNSC, Waterfall, table

CREATES = 3 if QUICK else 10
# Fields of the first line of /proc/stat without idle, iowait and what counts twice (proc_stat(5)): user, nice, system, irq, softirq.
BUSY = (0, 1, 2, 5, 6)
HERTZ = os.sysconf("SC_CLK_TCK")
# Seconds over which the processor time of the idle host is measured.
IDLE_SECONDS = 5


def busy_seconds():
    """Processor seconds of all cores since the host's start."""
    with open("/proc/stat") as file:
        fields = [int(word) for word in file.readline().split()[1:]]
    return sum(fields[at] for at in BUSY) / HERTZ


def idle_share():
    """Cores that the host uses by itself."""
    began, before = time.time(), busy_seconds()
    time.sleep(IDLE_SECONDS)
    return (busy_seconds() - before) / (time.time() - began)


def processor_time_of_creates(waterfall):
    """Milliseconds of processor time of a create until usable, and until it has been quiet for a while."""
    share, costs = idle_share(), []
    for _ in range(CREATES):
        began, before = time.time(), busy_seconds()
        computer = waterfall.create()
        waterfall.post(computer, "bash", {"command": "true"})
        usable = busy_seconds() - before - share * (time.time() - began)
        time.sleep(SETTLE_SECONDS / 2)
        settled = busy_seconds() - before - share * (time.time() - began)
        costs.append((usable * 1000, settled * 1000))
        waterfall.api("DELETE", f"/computers/{computer}")
        time.sleep(1)
    return [statistics.median(column) for column in zip(*costs)]


def memory_by_program(computer):
    """Megabytes of own memory of each program of a computer, the largest first."""
    found = {}
    for pid in distinct_address_spaces(processes(groups(computer))):
        with open(f"/proc/{pid}/comm") as file:
            name = file.read().strip()
        found[name] = found.get(name, 0) + pss([pid], "Pss_Anon")
    return sorted(found.items(), key=lambda item: -item[1])


def creates(binary, image):
    """Processor time of creates, and memory of an idle computer."""
    print("\n| processor time of a create | until usable, ms | until quiet, ms |\n|---|---|---|")
    found = {}
    for engine in ("runc", "gvisor"):
        lines, keeps_memory = ENGINES[engine]
        for label, more in ((engine, BOOTS), (f"{engine}, from a boot snapshot", "")):
            if more == "" and not keeps_memory:
                continue
            with Controller(binary, image, lines + more) as controller:
                waterfall = Waterfall(controller)
                if more == "":
                    controller.api("DELETE", f"/computers/{waterfall.create()}")
                    time.sleep(30)
                usable, settled = processor_time_of_creates(waterfall)
                print(f"| {label} | {usable:.0f} | {settled:.0f} |", flush=True)
                computer = waterfall.create()
                waterfall.post(computer, "bash", {"command": "true"})
                time.sleep(SETTLE_SECONDS)
                found[label] = memory_by_program(computer)
    for label, programs in found.items():
        print(f"\n| own memory, {label} | MB |\n|---|---|")
        for name, megabytes in programs:
            print(f"| {name} | {megabytes:.1f} |", flush=True)


def browser(binary, image):
    """Phases of a suspend, a resume, a snapshot, a launch from it and a clone over gVisor, with a browser open."""
    with Controller(binary, image, LOG + ENGINES["gvisor"][0] + BOOTS) as controller:
        waterfall = Waterfall(controller)
        computer = waterfall.create()
        waterfall.post(computer, "bash", {"command": BROWSER})
        time.sleep(SETTLE_SECONDS)
        suspends, resumes = [], []
        for _ in range(ROUNDS):
            suspends.append(waterfall.run(waterfall.acted(computer, "suspend"), is_used=False)[1])
            resumes.append(waterfall.run(waterfall.acted(computer, "resume"))[1])
            time.sleep(SETTLE_SECONDS / 2)
        snapshot = waterfall.post(computer, "snapshots", {"memory": True})["id"]
        fork = lambda: waterfall.post(computer, "fork", {"snapshot_id": snapshot})["id"]  # noqa: E731
        for operation, rounds in (("suspend", suspends), ("resume", resumes), ("launch from a snapshot", waterfall.repeated(fork))):
            table("gVisor, browser open", operation, rounds)
        waterfall.post(computer, "bash", {"command": "pkill chromium; head -c 1000000000 /dev/urandom >/root/data; sync",
                                          "timeout": 120})
        clone = lambda: waterfall.post(computer, "clone")["id"]  # noqa: E731
        table("gVisor", "clone with 1 GB of its own data", waterfall.repeated(clone))


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    if not os.path.exists(RUNSC):
        raise SystemExit(f"{RUNSC} does not exist (packaging/dev/deps bench)")
    for part in (creates, browser):
        part(*sys.argv[1:])


if __name__ == "__main__":
    main()
