#!/usr/bin/env python3
"""What does a computer's life cost on each engine: made, booted, suspended, woken, cloned, forked, launched from a snapshot?

usage: lifecycle.py HOTDESK_BINARY IMAGE_FOLDER

Each engine has a controller of its own. Milliseconds are those of a client that waits until a command has run in the
computer; bytes are those on the host's disk; memory is the PSS of everything in the computer's control groups while
nobody uses it, each address space once, and what the groups are charged with: that is the kernel's memory as well, and of files
only what they were the first to read. What an engine cannot do is said with its own words. Then the same steps by
virsh, with virtual machines of libvirt on the same image, and by how much each engine is quicker. Everything is removed at the
end.
"""

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from house import House, Refused
from kit import CACHE, QUICK, arguments, few, timed
from libvirt_peer import lifecycle as by_virsh
from steps import Step, Steps, compare, span

ROUNDS = few(5)
# Computers that a controller finds again after its end.
CROWD = 3 if QUICK else 10
# Launched from one snapshot at the same moment.
AT_ONCE = 4
# A desktop is idle once its start-up is over.
SETTLED = 2 if QUICK else 15
RUNSC = os.path.join(CACHE, "runsc/usr/bin/runsc")
# Each engine with the lines of its configuration; one that this build or this host lacks is skipped.
ENGINES = {
    "container over runc": "",
    "container over gVisor": f"[container]\nruntime = {json.dumps(RUNSC)}\n",
    "qemu": 'engine = "qemu"\n',
}
# Something that goes on: a terminal with a counter.
BUSY = "DISPLAY=:99 setsid xterm -e sh -c 'while :; do date; sleep 1; done' >/dev/null 2>&1 </dev/null &"


# Milliseconds of what only computes, and of what only calls the kernel, told by the computer itself.
WORK = "import os, time; began = time.perf_counter(); {}; print((time.perf_counter() - began) * 1000)"
COMPUTE, CALLS = "sum(i * i for i in range(3000000))", "[os.getppid() for _ in range(100000)]"


def groups(computer):
    """The computer's folders among the host's control groups, of any version."""
    find = ["find", "/sys/fs/cgroup", "-type", "d", "-name", computer]
    return subprocess.run(find, stdout=subprocess.PIPE, text=True).stdout.split()


def processes(found):
    """The processes in control groups."""
    pids = set()
    for group in found:
        for folder, _, _ in os.walk(group):
            with open(f"{folder}/cgroup.procs") as file:
                pids.update(file.read().split())
    return pids


def charged(found):
    """Megabytes that control groups are charged with."""
    for group in found:
        for name in ("memory.current", "memory.usage_in_bytes"):
            if os.path.exists(f"{group}/{name}"):
                with open(f"{group}/{name}") as file:
                    return int(file.read()) / 1e6
    return None


def megabytes(size):
    return None if size is None else size / 1e6


class Life:
    """One computer of a controller, taken through its steps."""

    def __init__(self, house, steps):
        self.house, self.steps = house, steps
        self.workspace = house.api("POST", "/workspaces", {"name": "bench"})["id"]

    def create(self, name):
        return self.house.api("POST", "/computers", {"workspace_id": self.workspace, "name": name})["id"]

    def ask(self, computer, what, body=None):
        return self.house.api("POST", f"/computers/{computer}/{what}", body or {})

    def uses(self, computer, api=None):
        """Runs a command in a computer: it is usable."""
        (api or self.house.api)("POST", f"/computers/{computer}/bash", {"command": "true"})

    def remove(self, computer):
        self.house.api("DELETE", f"/computers/{computer}")

    def bytes(self, computer, inside=""):
        """Megabytes that a computer, or a folder of it, takes on the disk."""
        path = f"{self.house.data}/machines/{computer}/{inside}"
        if not os.path.exists(path):
            return None
        # The agent's executable is one file for all computers, under more names.
        du = ["du", "-s", "--block-size=1", "--exclude=agent", path]
        ran = subprocess.run(du, check=True, stdout=subprocess.PIPE, text=True)
        return megabytes(int(ran.stdout.split()[0]))

    def attempt(self, step, work):
        """A step that not every engine has; `work` returns what is told of it."""
        try:
            self.steps.row(step, *work())
            return True
        except Refused as refusal:
            self.steps.skip(step, refusal)
            return False

    def idles(self, computer):
        time.sleep(SETTLED)
        found = groups(computer)
        self.steps.memory(Step.IDLE, processes(found), charged(found))

    def begins(self):
        """Makes computers; the one that stays, and is idle."""
        made = []

        def create():
            made.append(self.create(f"c{len(made)}"))
            self.uses(made[-1])
        makes = [span(create) for _ in range(ROUNDS)]
        self.steps.row(Step.CREATE, makes, self.bytes(made[0]))
        for other in made[1:]:
            self.remove(other)
        self.idles(made[0])
        return made[0]

    def acts(self, computer):
        """What a client does all the time."""
        path = f"/computers/{computer}/screenshot?response_format=binary"

        def often(step, act):
            # The first may have to make what the others find; an emulated computer may be too slow for it.
            self.attempt(step, lambda: (act(), timed(act, few(100)))[1:])
        often(Step.CLICK, lambda: self.ask(computer, "click", {"x": 640, "y": 700}))
        often(Step.SHOT, lambda: self.house.api.raw("GET", path))
        often(Step.COMMAND, lambda: self.uses(computer))
        for step, work in ((Step.COMPUTE, COMPUTE), (Step.CALLS, CALLS)):
            script = {"command": f"python3 -c '{WORK.format(work)}'"}
            told = [self.ask(computer, "bash", script)["output"] for _ in range(ROUNDS)]
            self.steps.row(step, [float(one) for one in told])

    def boots(self, computer):
        def stop():
            self.ask(computer, "stop")
            while self.house.api("GET", f"/computers/{computer}")["status"] != "stopped":
                time.sleep(0.01)

        def boot():
            self.ask(computer, "ensure-running")
            self.uses(computer)
        stops, boots = zip(*((span(stop), span(boot)) for _ in range(ROUNDS)))
        self.steps.row(Step.STOP, stops)
        self.steps.row(Step.BOOT, boots)

    def sleeps(self, computer):
        wakes = []

        def suspend():
            spans, kept = [], None
            for _ in range(ROUNDS):
                spans.append(span(lambda: self.ask(computer, "suspend")))
                kept = self.bytes(computer, "memory")

                def wake():
                    self.ask(computer, "resume")
                    self.uses(computer)
                wakes.append(span(wake))
            return spans, kept
        if self.attempt(Step.SUSPEND, suspend):
            self.steps.row(Step.RESUME, wakes)

    def copies(self, computer, what, body=None):
        """Work that makes computers from this one, one after another; the last one's bytes."""
        def work():
            spans, disk = [], None
            for _ in range(ROUNDS):
                copied = []

                def copy():
                    copied.append(self.ask(computer, what, body)["id"])
                    self.uses(copied[0])
                spans.append(span(copy))
                disk = self.bytes(copied[0])
                self.remove(copied[0])
            return spans, disk
        return work

    def at_once(self, computer, what, body):
        """Work that makes several computers from this one at the same moment; the bytes of one of them."""
        def one(_):
            # A connection each.
            api = self.house.connect()
            copied = api("POST", f"/computers/{computer}/{what}", body)["id"]
            self.uses(copied, api)
            return copied

        def work():
            spans, disk = [], None
            with ThreadPoolExecutor(AT_ONCE) as clients:
                for _ in range(ROUNDS):
                    copied = []
                    spans.append(span(lambda: copied.extend(clients.map(one, range(AT_ONCE)))))
                    disk = self.bytes(copied[0])
                    for other in copied:
                        self.remove(other)
            return spans, disk
        return work

    def is_kept(self, computer, memory, keeping, back):
        """Snapshots, and back to the last of them; its id, where there is one."""
        snapshots, before = [], self.bytes(computer, "snapshots") or 0

        def keep():
            spans = [span(lambda: snapshots.append(self.ask(computer, "snapshots", {"memory": memory})["id"]))
                     for _ in range(ROUNDS)]
            return spans, (self.bytes(computer, "snapshots") - before) / ROUNDS

        def roll_back():
            self.ask(computer, "rollback", {"snapshot_id": snapshots[-1]})
            self.ask(computer, "ensure-running")
            self.uses(computer)
        if not self.attempt(keeping, keep):
            return None
        self.attempt(back, lambda: ([span(roll_back) for _ in range(ROUNDS)],))
        for older in snapshots[:-1]:
            self.house.api("DELETE", f"/computers/{computer}/snapshots/{older}")
        return {"snapshot_id": snapshots[-1]}

    def whole(self):
        computer = self.begins()
        self.acts(computer)
        self.boots(computer)
        self.ask(computer, "bash", {"command": BUSY})
        self.sleeps(computer)
        self.uses(computer)
        self.ask(computer, "bash", {"command": "head -c 200000000 /dev/urandom >/root/data; sync"})
        self.attempt(Step.CLONE, self.copies(computer, "clone"))
        self.attempt(Step.FORK, self.copies(computer, "fork"))
        self.is_kept(computer, False, Step.KEEP_DISK, Step.BACK_TO_DISK)
        if snapshot := self.is_kept(computer, True, Step.KEEP_MEMORY, Step.BACK_TO_MEMORY):
            self.attempt(Step.LAUNCH, self.copies(computer, "fork", snapshot))
            self.attempt(Step.LAUNCH_4, self.at_once(computer, "fork", snapshot))
        self.remove(computer)

    def crowd(self):
        """How soon does a controller that was killed have all its computers again?"""
        computers, house = [self.create(f"crowd {number}") for number in range(CROWD)], self.house

        def back():
            house.start()
            until = time.time() + 120
            while sum(one["status"] == "running" for one in house.api("GET", "/computers?limit=100")["computers"]) < CROWD:
                if time.time() > until:
                    raise SystemExit("not all computers were adopted")
                time.sleep(0.005)
            for computer in computers:
                self.uses(computer)
        spans = []
        for _ in range(ROUNDS):
            house.server.kill()
            house.server.wait()
            spans.append(span(back))
        self.steps.row(Step.ADOPT.format(CROWD), spans)


def main():
    binary, image = arguments("lifecycle.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    every = []
    for name, lines in ENGINES.items():
        steps = Steps(name)
        if RUNSC in lines and not os.path.exists(RUNSC):
            steps.skip("all", f"{RUNSC} is not there (packaging/dev/deps bench)")
            continue
        try:
            house = House(binary, image, lines)
        except Refused as refusal:
            steps.skip("all", refusal)
            continue
        with house:
            life = Life(house, steps)
            life.whole()
            life.crowd()
        steps.keep()
        every.append(steps)
    peer = Steps("virsh")
    by_virsh(binary, image, ROUNDS, peer)
    peer.keep()
    compare(every, peer)


if __name__ == "__main__":
    main()
