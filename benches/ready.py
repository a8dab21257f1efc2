#!/usr/bin/env python3
"""Time until a computer is usable, and how many fit on this host: the goals for runc and gVisor, each with a verdict.

usage: ready.py HOTDESK_BINARY IMAGE_FOLDER

A computer is usable when a command has run in it and a screenshot has arrived that shows its desktop as it looks a second
later. Where several start at once, it is the first screenshot. The image must have a browser (the full one). Each engine has its own controller. Everything is removed at the end.
"""

import io
import json
import os
import shlex
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from PIL import Image, ImageChops

from controller import RUNC, Controller, RequestFailed
from lifecycle import RUNSC, SETTLE_SECONDS, groups, processes
from steps import distinct_address_spaces, duration, pss
from support import QUICK, Table, arguments, scaled, timed

ROUNDS = scaled(10)
AT_ONCE = 4 if QUICK else 20
LAUNCHES = 4
IDLE = 5 if QUICK else 100
DATA_MB = 100 if QUICK else 1000
# A click slower than this ends the count of computers that fit.
SLOW_CLICK_MS = 50
# Computers that are created between two measurements of clicks.
STEP = 2 if QUICK else 10
# Seconds in which boot snapshots and the pool must be ready.
PREPARED_SECONDS = 180
# Seconds in which the desktop of a started computer is watched.
WATCH_SECONDS = 1
# Share of a desktop's pixels that a blinking cursor or a clock may change.
STILL = 0.02
GVISOR = f"[engines]\noffered = \"sandbox\"\nrunsc = {json.dumps(RUNSC)}\n"
# More than fit on the host: its memory and its processors are what ends the count.
LIMITS = "\n[limits]\nmax_computers = 1000\n"
# Computers that may wait in the pool: a claim for each round.
POOL = "\n[[pool.sizes]]\nwanted = 2\n"
# Prints the longest pause of this process in milliseconds, once a file tells it to end.
TICKS = ("import os, time\nlongest, last = 0, time.time()\nwhile not os.path.exists('/root/end'):\n"
         "    time.sleep(0.002); now = time.time(); longest = max(longest, now - last); last = now\n"
         "open('/root/pause', 'w').write(str(longest * 1000))")
BROWSER = "setsid chromium --no-first-run about:blank >/dev/null 2>&1 </dev/null &"


class Goals:
    """The most that each figure may be, by engine; None where an engine cannot do it."""

    def __init__(self, pooled, create, at_once, clone, click, memory, density, launch=None, launches=None, suspend=None,
                 pause=None, resume=None):
        self.pooled, self.create, self.at_once, self.clone, self.click = pooled, create, at_once, clone, click
        self.memory, self.density, self.launch, self.launches = memory, density, launch, launches
        self.suspend, self.pause, self.resume = suspend, pause, resume


ENGINES = {
    "runc": (RUNC, Goals(pooled=60, create=300, at_once=3000, clone=1500, click=0.8, memory=45, density=150)),
    "gVisor": (GVISOR, Goals(pooled=100, create=500, at_once=6000, clone=2000, click=6, memory=30, density=80,
                             launch=800, launches=1600, suspend=1000, pause=300, resume=800)),
}


class Host:
    """One controller and its client."""

    def __init__(self, controller, table):
        self.controller, self.table = controller, table
        self.api = controller.api
        self.workspace = self.api("POST", "/workspaces", {"name": "bench"})["id"]
        self.made = 0

    def create(self, api=None):
        self.made += 1
        body = {"workspace_id": self.workspace, "name": f"c{self.made}"}
        return (api or self.api)("POST", "/computers", body)["id"]

    def use(self, computer, api=None):
        """Runs a command and takes a screenshot, which is returned."""
        api = api or self.api
        api("POST", f"/computers/{computer}/bash", {"command": "true"})
        return api.raw("GET", f"/computers/{computer}/screenshot?response_format=binary")

    def remove(self, *computers):
        for computer in computers:
            self.api("DELETE", f"/computers/{computer}")

    def metric(self, name):
        text = self.api.raw("GET", "/metrics").decode()
        return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(name)), 0)

    def wait_for(self, metric, least):
        until = time.time() + PREPARED_SECONDS
        while self.metric(metric) < least:
            if time.time() > until:
                raise SystemExit(f"{metric} did not become {least} within {PREPARED_SECONDS} s")
            time.sleep(0.05)

    def until_settled(self, begin):
        """Milliseconds from a start until its command has run and its desktop looks as a second later; and the computer."""
        started = time.perf_counter()
        computer = begin()
        self.api("POST", f"/computers/{computer}/bash", {"command": "true"})
        pictures, until = [], time.perf_counter() + WATCH_SECONDS
        while time.perf_counter() < until:
            picture = self.api.raw("GET", f"/computers/{computer}/screenshot?response_format=binary")
            pictures.append(((time.perf_counter() - started) * 1000, Image.open(io.BytesIO(picture)).convert("L")))
        settled, last = pictures.pop()
        for at, picture in reversed(pictures):
            if sum(ImageChops.difference(picture, last).histogram()[16:]) > STILL * last.width * last.height:
                break
            settled = at
        return settled, computer

    def start(self, label, goal, begin, ready=lambda: None):
        """A row of starts, until usable: `begin` returns a computer's id, and `ready` runs before it. Returns the median."""
        durations = []
        for _ in range(ROUNDS):
            ready()
            took, computer = self.until_settled(begin)
            durations.append(took)
            self.remove(computer)
        return self.goal(label, durations, goal)

    def goal(self, label, durations, goal):
        """A row, and its verdict if there is a goal. Returns the median."""
        middle = self.table.durations(label, durations, min(durations), max(durations))
        if goal is not None:
            self.table.goal(label, middle, most=goal)
        return middle

    def at_once(self, label, goal, count, begin):
        """A row for several starts at the same moment, until the last is usable."""
        apis, durations = [self.controller.connect() for _ in range(count)], []

        def work(api):
            computer = begin(api)
            self.use(computer, api)
            return computer
        with ThreadPoolExecutor(count) as clients:
            for _ in range(max(1, ROUNDS // 3)):
                made = []
                durations.append(duration(lambda: made.extend(clients.map(work, apis))))
                self.remove(*made)
        self.goal(label, durations, goal)


def measure(host, goals):
    """All that one computer, or a few, show."""
    api = host.api
    if goals.launch is not None:
        # The first create boots; the service makes a boot snapshot of its size afterwards.
        host.remove(host.create())
        host.wait_for("hotdesk_boot_snapshots", 1)
    host.start("create, until usable", goals.create, host.create)
    host.at_once(f"{AT_ONCE} creates at once, until all are usable", goals.at_once, AT_ONCE, host.create)

    computer = host.create()
    post = lambda action, body=None: api("POST", f"/computers/{computer}/{action}", body or {})  # noqa: E731
    host.use(computer)
    time.sleep(SETTLE_SECONDS)
    idle = pss(distinct_address_spaces(processes(groups(computer))), "Pss_Anon")
    host.table.goal("own memory of an idle computer", idle, most=goals.memory, unit="MB")
    click = lambda: post("click", {"x": 640, "y": 700})  # noqa: E731
    click()
    host.goal("click", timed(click, scaled(200)), goals.click)

    if goals.launch is not None:
        measure_memory(host, goals, computer, post)
        # The clone boots beside the computer, whose browser would take the processors on this engine alone.
        post("bash", {"command": "pkill chromium; while pgrep chromium >/dev/null; do sleep 0.1; done"})
    post("bash", {"command": f"head -c {DATA_MB}000000 /dev/urandom >/root/data; sync", "timeout": 120})
    host.start(f"clone of a running one with {DATA_MB} MB, until usable", goals.clone, lambda: post("clone")["id"])
    host.remove(computer)


def measure_memory(host, goals, computer, post):
    """What keeps memory: suspend, resume and launches of a computer with a browser, and how long a snapshot stops it."""
    post("bash", {"command": BROWSER})
    time.sleep(SETTLE_SECONDS)
    suspends, resumes, pauses = [], [], []
    for _ in range(ROUNDS):
        suspends.append(duration(lambda: post("suspend")))
        resumes.append(duration(lambda: (post("resume"), host.use(computer))))
    host.goal("suspend, browser open", suspends, goals.suspend)
    host.goal("resume, browser open, until usable", resumes, goals.resume)
    snapshot = None
    for _ in range(ROUNDS):
        post("bash", {"command": f"rm -f /root/end /root/pause; setsid python3 -c {shlex.quote(TICKS)} >/dev/null 2>&1 </dev/null &"})
        time.sleep(1)
        older, snapshot = snapshot, post("snapshots", {"memory": True})["id"]
        ended = post("bash", {"command": "touch /root/end; until [ -s /root/pause ]; do sleep 0.02; done; cat /root/pause"})
        pauses.append(float(ended["stdout"]))
        if older:
            host.api("DELETE", f"/computers/{computer}/snapshots/{older}")
    host.goal("pause of the guest by a snapshot with memory, browser open", pauses, goals.pause)
    body = {"snapshot_id": snapshot}
    host.start("launch from a snapshot, browser open, until usable", goals.launch, lambda: post("fork", body)["id"])
    host.at_once(f"{LAUNCHES} such launches at once", goals.launches, LAUNCHES,
                 lambda api: api("POST", f"/computers/{computer}/fork", body)["id"])


def measure_density(host, goals):
    """Creates computers until a click takes too long, the host refuses, or the goal is reached."""
    computers, middle, why = [], 0, "the goal"
    resident = lambda: pss([host.controller.server.pid], "Pss")  # noqa: E731
    while len(computers) < (IDLE if QUICK else goals.density):
        try:
            computers += [host.create() for _ in range(STEP)]
        except RequestFailed as refusal:
            why = str(refusal)[:100]
            break
        chosen = computers[:: max(1, len(computers) // 10)]
        clicks = [one for computer in chosen for one in timed(
            lambda: host.api("POST", f"/computers/{computer}/click", {"x": 640, "y": 700}), 5)]
        middle = statistics.median(clicks)
        if len(computers) == IDLE:
            time.sleep(SETTLE_SECONDS)
            host.table.goal(f"controller with {IDLE} idle computers", resident(), most=60, unit="MB")
        if middle > SLOW_CLICK_MS:
            why = f"a click takes {middle:.0f} ms"
            break
    host.table.goal(f"idle desktops on this host (ended by {why}; a click {middle:.1f} ms)", len(computers), least=goals.density,
                    unit="computers")
    host.remove(*computers)


def measure_pool(host, goals):
    """Creates that claim a booted computer."""
    host.start("create from the pool, until usable", goals.pooled, host.create, lambda: host.wait_for("hotdesk_pool_ready", 1))


def main():
    binary, image = arguments("ready.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    for name, (lines, goals) in ENGINES.items():
        table = Table(f"ready computers over {name} (ms)", "median", "best", "worst")
        if RUNSC in lines and not os.path.exists(RUNSC):
            table.skip("all", f"{RUNSC} does not exist (packaging/dev/deps bench)")
            continue
        for config, parts in ((lines + LIMITS, (measure, measure_density)), (lines + POOL, (measure_pool,))):
            with Controller(binary, image, config) as controller:
                host = Host(controller, table)
                for part in parts:
                    part(host, goals)
        table.save()


if __name__ == "__main__":
    main()
