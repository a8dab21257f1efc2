#!/usr/bin/env python3
"""Time, disk space and memory of each lifecycle step of a computer on each engine, beside virsh.

usage: lifecycle.py HOTDESK_BINARY IMAGE_FOLDER

Each engine has its own controller. A time is that of a client that waits until a command has run in the computer. Bytes
are those on the host's disk. Memory is the PSS of all processes in the computer's control groups while it is idle, each
address space once. A second figure is what the control groups are charged with: it includes kernel memory, but only those
file pages that the computer was the first to read. For a step that an engine lacks, the table shows its error. Then virsh
takes the same steps with libvirt virtual machines on the same image, and a last table shows the ratios. Everything is
removed at the end.
"""

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from controller import RUNC, Controller, RequestFailed
from libvirt_peer import lifecycle as virsh_lifecycle
from steps import Step, Steps, compare, duration
from support import CACHE, QUICK, arguments, scaled, timed

ROUNDS = scaled(5)
# Number of computers that a restarted controller adopts.
ADOPTED = 3 if QUICK else 10
# Number of simultaneous launches from one snapshot.
PARALLEL = 4
# Seconds until the start-up of a desktop is over.
SETTLE_SECONDS = 2 if QUICK else 15
RUNSC = os.path.join(CACHE, "runsc/usr/bin/runsc")
# Configuration lines of each engine. An engine that this build or this host lacks is skipped.
ENGINES = {
    "container over runc": RUNC,
    "container over gVisor": f"[engines]\noffered = \"sandbox\"\nrunsc = {json.dumps(RUNSC)}\n",
    "qemu": '[engines]\noffered = "vm"\n',
}
# A program that keeps a computer busy: a terminal with a clock.
BUSY = "DISPLAY=:99 setsid xterm -e sh -c 'while :; do date; sleep 1; done' >/dev/null 2>&1 </dev/null &"


# Prints the milliseconds of a computation, or of system calls, inside the computer.
WORK = "import os, time; start = time.perf_counter(); {}; print((time.perf_counter() - start) * 1000)"
COMPUTE, CALLS = "sum(i * i for i in range(3000000))", "[os.getppid() for _ in range(100000)]"


def groups(computer):
    """The computer's control groups on the host, of any version."""
    find = ["find", "/sys/fs/cgroup", "-type", "d", "-name", computer]
    return subprocess.run(find, stdout=subprocess.PIPE, text=True).stdout.split()


def processes(found):
    """The process ids in control groups."""
    pids = set()
    for group in found:
        for folder, _, _ in os.walk(group):
            with open(f"{folder}/cgroup.procs") as file:
                pids.update(file.read().split())
    return pids


def charged(found):
    """Megabytes that control groups are charged with, or None."""
    for group in found:
        for name in ("memory.current", "memory.usage_in_bytes"):
            if os.path.exists(f"{group}/{name}"):
                with open(f"{group}/{name}") as file:
                    return int(file.read()) / 1e6
    return None


def megabytes(size):
    return None if size is None else size / 1e6


class Lifecycle:
    """Takes one computer of a controller through its steps."""

    def __init__(self, controller, steps):
        self.controller, self.steps = controller, steps
        self.workspace = controller.api("POST", "/workspaces", {"name": "bench"})["id"]

    def create(self, name):
        return self.controller.api("POST", "/computers", {"workspace_id": self.workspace, "name": name})["id"]

    def post(self, computer, action, body=None):
        return self.controller.api("POST", f"/computers/{computer}/{action}", body or {})

    def wait_until_usable(self, computer, api=None):
        """Runs a command in a computer: it must be usable."""
        (api or self.controller.api)("POST", f"/computers/{computer}/bash", {"command": "true"})

    def remove(self, computer):
        self.controller.api("DELETE", f"/computers/{computer}")

    def bytes(self, computer, inside=""):
        """Megabytes that a computer, or one of its folders, takes on the disk."""
        path = f"{self.controller.data}/machines/{computer}/{inside}"
        if not os.path.exists(path):
            return None
        # The agent's executable is one file with many hard links, shared by all computers.
        du = ["du", "-s", "--block-size=1", "--exclude=agent", path]
        ran = subprocess.run(du, check=True, stdout=subprocess.PIPE, text=True)
        return megabytes(int(ran.stdout.split()[0]))

    def attempt(self, step, work):
        """A step that not every engine has; `work` returns the figures of its row."""
        try:
            self.steps.row(step, *work())
            return True
        except RequestFailed as refusal:
            self.steps.skip(step, refusal)
            return False

    def measure_idle(self, computer):
        time.sleep(SETTLE_SECONDS)
        found = groups(computer)
        self.steps.memory(Step.IDLE, processes(found), charged(found))

    def measure_create(self):
        """Creates computers, removes all but one, and measures that one while it is idle. Returns its id."""
        created = []

        def create():
            created.append(self.create(f"c{len(created)}"))
            self.wait_until_usable(created[-1])
        creates = [duration(create) for _ in range(ROUNDS)]
        self.steps.row(Step.CREATE, creates, self.bytes(created[0]))
        for other in created[1:]:
            self.remove(other)
        self.measure_idle(created[0])
        return created[0]

    def measure_actions(self, computer):
        """Measures frequent requests."""
        path = f"/computers/{computer}/screenshot?response_format=binary"

        def repeat(step, act):
            # The first call may fill caches; an emulated computer may be too slow for the step.
            self.attempt(step, lambda: (act(), timed(act, scaled(100)))[1:])
        repeat(Step.CLICK, lambda: self.post(computer, "click", {"x": 640, "y": 700}))
        repeat(Step.SHOT, lambda: self.controller.api.raw("GET", path))
        repeat(Step.COMMAND, lambda: self.wait_until_usable(computer))
        for step, work in ((Step.COMPUTE, COMPUTE), (Step.CALLS, CALLS)):
            script = {"command": f"python3 -c '{WORK.format(work)}'"}
            outputs = [self.post(computer, "bash", script)["output"] for _ in range(ROUNDS)]
            self.steps.row(step, [float(one) for one in outputs])

    def measure_boots(self, computer):
        def stop():
            self.post(computer, "stop")
            while self.controller.api("GET", f"/computers/{computer}")["status"] != "stopped":
                time.sleep(0.01)

        def boot():
            self.post(computer, "ensure-running")
            self.wait_until_usable(computer)
        stops, boots = zip(*((duration(stop), duration(boot)) for _ in range(ROUNDS)))
        self.steps.row(Step.STOP, stops)
        self.steps.row(Step.BOOT, boots)

    def measure_suspend(self, computer):
        resumes = []

        def suspend():
            durations, saved = [], None
            for _ in range(ROUNDS):
                durations.append(duration(lambda: self.post(computer, "suspend")))
                saved = self.bytes(computer, "memory")

                def resume():
                    self.post(computer, "resume")
                    self.wait_until_usable(computer)
                resumes.append(duration(resume))
            return durations, saved
        if self.attempt(Step.SUSPEND, suspend):
            self.steps.row(Step.RESUME, resumes)

    def measure_copies(self, computer, action, body=None):
        """A function that copies this computer several times, one after another; it returns the times and the last copy's megabytes."""
        def work():
            durations, disk = [], None
            for _ in range(ROUNDS):
                copied = []

                def copy():
                    copied.append(self.post(computer, action, body)["id"])
                    self.wait_until_usable(copied[0])
                durations.append(duration(copy))
                disk = self.bytes(copied[0])
                self.remove(copied[0])
            return durations, disk
        return work

    def measure_parallel(self, computer, action, body):
        """A function that makes several copies of this computer at the same moment; it returns the times and one copy's megabytes."""
        def copy(_):
            # Each client needs its own connection.
            api = self.controller.connect()
            copied = api("POST", f"/computers/{computer}/{action}", body)["id"]
            self.wait_until_usable(copied, api)
            return copied

        def work():
            durations, disk = [], None
            with ThreadPoolExecutor(PARALLEL) as clients:
                for _ in range(ROUNDS):
                    copied = []
                    durations.append(duration(lambda: copied.extend(clients.map(copy, range(PARALLEL)))))
                    disk = self.bytes(copied[0])
                    for other in copied:
                        self.remove(other)
            return durations, disk
        return work

    def measure_snapshots(self, computer, memory, create_step, rollback_step):
        """Measures snapshots and a rollback to the last of them. Returns the body that selects it, or None."""
        snapshots, before = [], self.bytes(computer, "snapshots") or 0

        def create_snapshot():
            durations = [duration(lambda: snapshots.append(self.post(computer, "snapshots", {"memory": memory})["id"]))
                     for _ in range(ROUNDS)]
            return durations, (self.bytes(computer, "snapshots") - before) / ROUNDS

        def roll_back():
            self.post(computer, "rollback", {"snapshot_id": snapshots[-1]})
            self.post(computer, "ensure-running")
            self.wait_until_usable(computer)
        if not self.attempt(create_step, create_snapshot):
            return None
        self.attempt(rollback_step, lambda: ([duration(roll_back) for _ in range(ROUNDS)],))
        for older in snapshots[:-1]:
            self.controller.api("DELETE", f"/computers/{computer}/snapshots/{older}")
        return {"snapshot_id": snapshots[-1]}

    def run(self):
        computer = self.measure_create()
        self.measure_actions(computer)
        self.measure_boots(computer)
        self.post(computer, "bash", {"command": BUSY})
        self.measure_suspend(computer)
        self.wait_until_usable(computer)
        self.post(computer, "bash", {"command": "head -c 200000000 /dev/urandom >/root/data; sync"})
        self.attempt(Step.CLONE, self.measure_copies(computer, "clone"))
        self.attempt(Step.FORK, self.measure_copies(computer, "fork"))
        self.measure_snapshots(computer, False, Step.SNAPSHOT_DISK, Step.ROLLBACK_DISK)
        if snapshot := self.measure_snapshots(computer, True, Step.SNAPSHOT_MEMORY, Step.ROLLBACK_MEMORY):
            self.attempt(Step.LAUNCH, self.measure_copies(computer, "fork", snapshot))
            self.attempt(Step.LAUNCH_4, self.measure_parallel(computer, "fork", snapshot))
        self.remove(computer)

    def measure_adoption(self):
        """Measures how soon a killed controller has adopted all of its computers."""
        computers, controller = [self.create(f"adopted {number}") for number in range(ADOPTED)], self.controller

        def adopt():
            controller.start()
            until = time.time() + 120
            while sum(one["status"] == "running" for one in controller.api("GET", "/computers?limit=100")["computers"]) < ADOPTED:
                if time.time() > until:
                    raise SystemExit("not all computers were adopted")
                time.sleep(0.005)
            for computer in computers:
                self.wait_until_usable(computer)
        durations = []
        for _ in range(ROUNDS):
            controller.server.kill()
            controller.server.wait()
            durations.append(duration(adopt))
        self.steps.row(Step.ADOPT.format(ADOPTED), durations)


def main():
    binary, image = arguments("lifecycle.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    engines = []
    for name, lines in ENGINES.items():
        steps = Steps(name)
        if RUNSC in lines and not os.path.exists(RUNSC):
            steps.skip("all", f"{RUNSC} does not exist (packaging/dev/deps bench)")
            continue
        try:
            controller = Controller(binary, image, lines)
        except RequestFailed as refusal:
            steps.skip("all", refusal)
            continue
        with controller:
            life = Lifecycle(controller, steps)
            life.run()
            life.measure_adoption()
        steps.save()
        engines.append(steps)
    peer = Steps("virsh")
    virsh_lifecycle(binary, image, ROUNDS, peer)
    peer.save()
    compare(engines, peer)


if __name__ == "__main__":
    main()
