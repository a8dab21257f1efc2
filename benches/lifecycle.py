#!/usr/bin/env python3
"""What does a computer's life cost on each engine: made, booted, suspended, woken, cloned, forked, launched from a snapshot?

usage: lifecycle.py HOTDESK_BINARY IMAGE_FOLDER

Each engine has a controller of its own. Milliseconds are those of a client that waits until a command has run in the
computer; bytes are those on the host's disk; memory is the PSS of everything in the computer's control groups while
nobody uses it, and what the group itself is charged with, which counts the page cache. What an engine cannot do is
said with its own words. Then the same steps by virsh, with virtual machines of libvirt on the same image. Everything is
removed at the end.
"""

import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import time

from first_light import UNHURRIED, Api
from kit import CACHE, QUICK, Topic, arguments, few
from libvirt_peer import lifecycle as by_virsh

ROUNDS = few(5)
# Computers that a controller finds again after its end.
CROWD = 3 if QUICK else 10
# A desktop is idle once its start-up is over.
SETTLED = 2 if QUICK else 15
RUNSC = os.path.join(CACHE, "runsc/usr/bin/runsc")
# Each engine with the lines of its configuration; one that this build or this host lacks is skipped.
ENGINES = {
    "container over runc": "",
    "container over gVisor": f"[container]\nruntime = {json.dumps(RUNSC)}\n",
    "qemu": 'engine = "qemu"\n',
}


class Refused(Exception):
    """An answer that is no success."""


class House:
    """A controller with a data folder of its own; a `with` ends and removes it."""

    def __init__(self, binary, image, lines):
        self.binary, self.image = binary, image
        self.folder = tempfile.mkdtemp(prefix="hotdesk-bench-")
        with open(f"{self.folder}/hotdesk.toml", "w") as file:
            file.write(lines)
        self.key = None
        try:
            self.start()
        except Refused:
            subprocess.run(["rm", "-rf", self.folder], check=True)
            raise
        self.workspace = self.api("POST", "/workspaces", {"name": "bench"})["id"]

    def start(self):
        """Starts the controller; returns once it listens."""
        log = open(f"{self.folder}/log", "a")
        self.server = subprocess.Popen(
            [self.binary, "serve", "--config", f"{self.folder}/hotdesk.toml", "--data-dir", f"{self.folder}/data",
             "--listen", "127.0.0.1:0", "--image", self.image],
            env=UNHURRIED, stdout=subprocess.PIPE, stderr=log, text=True)
        for line in self.server.stdout:
            if found := re.search(r"sk_live_\w+", line):
                self.key = found.group()
            if found := re.search(r"http://(.*):(\d+)", line):
                host, port = found.groups()
                self.connection = http.client.HTTPConnection(host, int(port), timeout=300)
                return
        with open(log.name) as said:
            raise Refused(said.read().strip().splitlines()[-1][:100])

    def api(self, method, path, body=None):
        try:
            return Api(self.connection, self.key, "/api")(method, path, body)
        except SystemExit as refusal:
            said = re.search(r'"error":"([^"]*)"', str(refusal))
            raise Refused(said.group(1) if said else str(refusal)) from None

    def create(self, name):
        return self.api("POST", "/computers", {"workspace_id": self.workspace, "name": name})["id"]

    def uses(self, computer):
        """Runs a command in a computer: it is usable."""
        self.api("POST", f"/computers/{computer}/bash", {"command": "true"})

    def remove(self, computer):
        self.api("DELETE", f"/computers/{computer}")

    def bytes(self, computer, inside=""):
        """Bytes that a computer, or a folder of it, takes on the disk."""
        path = f"{self.folder}/data/machines/{computer}/{inside}"
        if not os.path.exists(path):
            return None
        # The agent's executable is one file for all computers, under more names.
        ran = subprocess.run(["du", "-s", "--block-size=1", "--exclude=agent", path], check=True, stdout=subprocess.PIPE, text=True)
        return int(ran.stdout.split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(60)
        remove(self.binary, self.folder)


def remove(binary, folder):
    subprocess.run([binary, "purge", "--yes", "--data-dir", f"{folder}/data", "--image", "/nowhere"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", folder], check=True)


def groups(computer):
    """The computer's folders among the host's control groups, of any version."""
    find = ["find", "/sys/fs/cgroup", "-type", "d", "-name", computer]
    listed = subprocess.run(find, stdout=subprocess.PIPE, text=True)
    return listed.stdout.split()


def pss(pids):
    """Megabytes of processes; shared pages count by their share."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except (FileNotFoundError, ProcessLookupError, StopIteration):
            # It ended meanwhile, or has no memory of its own.
            pass
    return total * 1024 / 1e6


def memory(found):
    """Megabytes of the processes in control groups, and what the groups are charged with."""
    pids = set()
    for group in found:
        for folder, _, _ in os.walk(group):
            with open(f"{folder}/cgroup.procs") as file:
                pids.update(file.read().split())
    charged = None
    for group in found:
        for name in ("memory.current", "memory.usage_in_bytes"):
            if os.path.exists(f"{group}/{name}"):
                with open(f"{group}/{name}") as file:
                    charged = int(file.read()) / 1e6
    return pss(pids), charged


def span(work):
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def megabytes(size):
    return None if size is None else size / 1e6


class Steps:
    """Rows of one engine: the spans of a step, and the megabytes that it left on the disk."""

    def __init__(self, name):
        self.topic = Topic(f"the life of a computer: {name} (ms)", "median", "best", "worst", "MB disk", "MB memory")

    def row(self, what, spans, disk=None, memory=None):
        spans = sorted(spans)
        middle = spans[len(spans) // 2] if spans else None
        self.topic.row(what, middle, min(spans, default=None), max(spans, default=None), disk, memory)


def measure(house, steps):
    makes, made = [], []
    for number in range(ROUNDS):
        def create():
            made.append(house.create(f"c{number}"))
            house.uses(made[-1])
        makes.append(span(create))
    computer = made[0]
    steps.row("create, until a command has run", makes, megabytes(house.bytes(computer)))
    for other in made[1:]:
        house.remove(other)
    time.sleep(SETTLED)
    used, charged = memory(groups(computer))
    steps.row("an idle computer, PSS of its processes", [], None, used)
    steps.row("an idle computer, charged to its control group", [], None, charged)

    boots, stops = [], []
    for _ in range(ROUNDS):
        def stop():
            house.api("POST", f"/computers/{computer}/stop", {})
            while house.api("GET", f"/computers/{computer}")["status"] != "stopped":
                time.sleep(0.01)
        stops.append(span(stop))

        def boot():
            house.api("POST", f"/computers/{computer}/ensure-running", {})
            house.uses(computer)
        boots.append(span(boot))
    steps.row("stop", stops)
    steps.row("boot of a disk, until a command has run", boots)

    def attempt(what, work):
        """A step that not every engine has; `work` returns what is told of it."""
        try:
            steps.row(what, *work())
        except Refused as refusal:
            steps.topic.skip(what, str(refusal)[:70])

    # A terminal with a counter: something goes on.
    house.api("POST", f"/computers/{computer}/bash", {
        "command": "DISPLAY=:99 setsid xterm -e sh -c 'while :; do date; sleep 1; done' >/dev/null 2>&1 </dev/null &"})
    sleeps, wakes, kept = [], [], []

    def suspend():
        for _ in range(ROUNDS):
            sleeps.append(span(lambda: house.api("POST", f"/computers/{computer}/suspend", {})))
            kept.append(megabytes(house.bytes(computer, "memory")))

            def wake():
                house.api("POST", f"/computers/{computer}/resume", {})
                house.uses(computer)
            wakes.append(span(wake))
        return sleeps, kept[-1]

    attempt("suspend", suspend)
    if wakes:
        steps.row("resume, until a command has run", wakes)

    def copies(path, body):
        """Makes computers from this one; the last one's bytes."""
        def work():
            spans, disk = [], None
            for _ in range(ROUNDS):
                copied = []

                def copy():
                    copied.append(house.api("POST", f"/computers/{computer}/{path}", body)["id"])
                    house.uses(copied[0])
                spans.append(span(copy))
                disk = megabytes(house.bytes(copied[0]))
                house.remove(copied[0])
            return spans, disk
        return work

    house.uses(computer)
    house.api("POST", f"/computers/{computer}/bash", {"command": "head -c 200000000 /dev/urandom >/root/data; sync"})
    attempt("clone of a running computer with 200 MB of its own", copies("clone", {}))
    attempt("fork, with memory", copies("fork", {}))
    for kind, memory_too in (("of the disk", False), ("with memory", True)):
        snapshots = []

        def keep():
            def one():
                snapshots.append(house.api("POST", f"/computers/{computer}/snapshots", {"memory": memory_too})["id"])
            spans = [span(one) for _ in range(ROUNDS)]
            return spans, megabytes(house.bytes(computer, "snapshots"))

        def launch():
            def back():
                house.api("POST", f"/computers/{computer}/rollback", {"snapshot_id": snapshots[-1]})
                house.api("POST", f"/computers/{computer}/ensure-running", {})
                house.uses(computer)
            return ([span(back) for _ in range(ROUNDS)],)

        attempt(f"snapshot {kind} (bytes: of all of them)", keep)
        if snapshots:
            attempt(f"launch from a snapshot {kind}, until a command has run", launch)
    house.remove(computer)


def crowd(house, steps):
    """How soon does a controller that was killed have all its computers again?"""
    computers = [house.create(f"crowd {number}") for number in range(CROWD)]
    spans = []
    for _ in range(ROUNDS):
        house.server.kill()
        house.server.wait()

        def back():
            house.start()
            until = time.time() + 120
            while time.time() < until:
                listed = house.api("GET", "/computers?limit=100")["computers"]
                if sum(one["status"] == "running" for one in listed) == CROWD:
                    break
                time.sleep(0.005)
            else:
                raise SystemExit("not all computers were adopted")
            for computer in computers:
                house.uses(computer)
        spans.append(span(back))
    steps.row(f"a killed controller's start, until {CROWD} computers have run a command", spans)


def main():
    binary, image = arguments("lifecycle.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    for name, lines in ENGINES.items():
        steps = Steps(name)
        if RUNSC in lines and not os.path.exists(RUNSC):
            steps.topic.skip("all", f"{RUNSC} is not there (packaging/dev/deps bench)")
            continue
        try:
            house = House(binary, image, lines)
        except Refused as refusal:
            steps.topic.skip("all", str(refusal))
            continue
        with house:
            measure(house, steps)
            crowd(house, steps)
        steps.topic.keep()
    steps = Steps("virsh")
    by_virsh(binary, image, ROUNDS, steps, span, pss)
    steps.topic.keep()


if __name__ == "__main__":
    main()
