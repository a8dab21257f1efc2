#!/usr/bin/env python3
"""Runs of a scripted model: hotdesk's own time for a step, many runs at once, and the controller's memory for an idle thread.

usage: chat.py HOTDESK_BINARY IMAGE_FOLDER

A step is one call of a tool. Its own time lies between the end of a reply and the arrival of the next request at the model:
the action, the wait for a settled screen, the picture, the record in the thread, and the request. The model's time is left
out. The wait for 100 ms without a change is part of each action, and of the goals.
"""

import os
import statistics
import threading
import time
import urllib.request

from controller import RUNC, Controller
from model_server import ModelServer
from support import QUICK, Table, arguments, scaled

STEPS = scaled(100)
# Runs at once, and the computers and screens of each that they share. A run has its own screen.
CROWD, COMPUTERS, SCREENS = (6, 2, 3) if QUICK else (50, 13, 4)
CROWD_STEPS = scaled(20)
# Runs of each computer before and while the memory of threads is measured. A computer has at most 200 threads.
WARM_UP, THREADS = (3, 5) if QUICK else (10, 60)
# Goals in milliseconds for a step of one run: with a picture that changed, and with nothing that moved.
CHANGED_GOAL, STILL_GOAL = 150, 60
# Pictures of the last steps that are compared: does the screen do what the label says?
COMPARED = 10
# Seconds until a new desktop is idle.
SETTLE_SECONDS = 5
# Prints a page for each line, without an echo.
PAGES = "stty -echo; while read -r line; do head -c 1200 /dev/urandom | base64; done"


class Runs:
    """Runs with numbers, and the model's times of each."""

    def __init__(self, controller, models):
        self.controller, self.models, self.number, self.lock = controller, models, 0, threading.Lock()

    def run(self, api, model, steps, computer, screen=None):
        """Runs to the end. Returns its number, its thread, and when it began and ended."""
        with self.lock:
            self.number += 1
            number = self.number
        text = f"run {number} of {steps} steps"
        body = {"computer_id": computer, "model": model, "max_steps": steps + 1,
                "messages": [{"role": "user", "content": text}]}
        if screen:
            body["screen"] = screen
        began = time.perf_counter()
        answer = api("POST", "/v1/chat/completions", body)
        ended = time.perf_counter()
        done = answer["orgo"]
        if (done["ended"], done["steps"]) != ("done", steps):
            raise SystemExit(f"{text}: {done}")
        return number, done["thread_id"], began, ended


def own_times(requests):
    """Milliseconds from the end of each reply to the next request."""
    return [(after[0] - before[1]) * 1000 for before, after in zip(requests, requests[1:])]


def percentile(figures, share):
    return sorted(figures)[min(len(figures) - 1, int(len(figures) * share))]


def resident(pid):
    """Kilobytes of a process in memory."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def processor(pid):
    """Seconds of processor time of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def steps_of(api, thread):
    """The newest page of the steps of a thread."""
    return api("GET", f"/chat/threads/{thread}/steps?limit=200")["steps"]


def fetch(link):
    with urllib.request.urlopen(link, timeout=60) as response:
        return response.read()


def one_run(controller, runs, computer):
    api = controller.api
    api("POST", f"/computers/{computer}/launch",
        {"argv": ["xterm", "-geometry", "100x30+50+50", "-e", "sh", "-c", PAGES], "wait_seconds": 10})
    time.sleep(SETTLE_SECONDS)
    api("POST", f"/computers/{computer}/click", {"x": 300, "y": 200})
    table = Table("hotdesk's own time for a step of a model (ms)", "median", "95 %", "worst", "the call", "the rest")

    def measure(label, model, changes=None, goal=None):
        runs.run(api, model, 2, computer)
        runs.models.times()
        number, thread, began, ended = runs.run(api, model, STEPS, computer)
        requests = runs.models.times()[number]
        own, steps = own_times(requests), steps_of(api, thread)
        if changes is not None:
            compared = [fetch(step["screenshot"]) for step in steps[1:][-COMPARED:]]
            different = len(set(compared))
            # A clock on the desktop may change once.
            if different != len(compared) if changes else different > 2:
                raise SystemExit(f"{label}: the last {len(compared)} pictures have {different} contents")
        calls = [step["took_ms"] for step in steps]
        middle = statistics.median(own)
        table.row(label, middle, percentile(own, 0.95), max(own), float(statistics.median(calls)),
                  middle - statistics.median(calls))
        if goal:
            table.goal(f"own time of a step: {label}", middle, most=goal)
        return (requests[0][0] - began) * 1000, (ended - requests[-1][1]) * 1000

    start, end = measure("a key, the screen changes", "changes", True, CHANGED_GOAL)
    measure("a move, nothing on the screen changes", "still", False, STILL_GOAL)
    measure("a screenshot, without a wait", "look")
    measure("bash `true`", "command")
    table.row("from the request of a client to the model's first one", start, None, None, None, None)
    table.row("from the model's last reply to the answer", end, None, None, None, None)
    table.save()


def crowd(controller, runs, computers):
    """Runs on all screens of all computers at once, against one alone."""
    places = []
    for computer in computers:
        places.append((computer, None))
        for _ in range(SCREENS - 1):
            screen = controller.api("POST", f"/computers/{computer}/screens", {"width": 1280, "height": 720})
            places.append((computer, screen["id"]))
    places = places[:CROWD]
    time.sleep(SETTLE_SECONDS)
    table = Table("runs at once", "own ms", "95 %", "steps/s", "CPU ms/step", "MB more")
    pid = controller.server.pid

    def measure(label, places):
        runs.models.times()
        clients, failures = [controller.connect() for _ in places], []
        begin = threading.Barrier(len(places) + 1)

        def drive(api, computer, screen):
            begin.wait()
            try:
                runs.run(api, "mixed", CROWD_STEPS, computer, screen)
            except SystemExit as failed:
                failures.append(str(failed))

        threads = [threading.Thread(target=drive, args=(api, *place)) for api, place in zip(clients, places)]
        for thread in threads:
            thread.start()
        before, used = resident(pid), processor(pid)
        most = before
        begin.wait()
        began = time.perf_counter()
        while any(thread.is_alive() for thread in threads):
            most = max(most, resident(pid))
            time.sleep(0.1)
        took, used = time.perf_counter() - began, processor(pid) - used
        if failures:
            raise SystemExit(f"{label}: {len(failures)} runs failed: {failures[0]}")
        times = runs.models.times()
        if len(times) != len(places) or any(len(requests) != CROWD_STEPS + 1 for requests in times.values()):
            raise SystemExit(f"{label}: the model got other requests than the runs made")
        own = [figure for requests in times.values() for figure in own_times(requests)]
        table.row(label, statistics.median(own), percentile(own, 0.95), len(own) / took, used * 1000 / len(own),
                  (most - before) / 1000)

    measure("one run", places[:1])
    measure(f"{len(places)} runs on {len(computers)} computers, at most {SCREENS} screens of each", places)
    table.save()


def idle_threads(controller, runs, computers):
    def store(count):
        def drive(api, computer):
            for _ in range(count):
                runs.run(api, "command", 1, computer)

        workers = [threading.Thread(target=drive, args=(controller.connect(), computer)) for computer in computers]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        stored = sum(len(controller.api("GET", f"/chat/threads?desktopId={computer}")["threads"]) for computer in computers)
        time.sleep(SETTLE_SECONDS)
        return stored, resident(controller.server.pid)

    stored, before = store(WARM_UP)
    more, after = store(THREADS)
    if more - stored != THREADS * len(computers):
        raise SystemExit(f"{more - stored} threads were stored, not {THREADS * len(computers)}")
    table = Table("memory of the controller (RSS)", "threads", "before, MB", "after, MB", "kB/thread")
    table.row("idle threads, each with the messages and the step of a run", more - stored, before / 1000, after / 1000,
              (after - before) / (more - stored))
    table.save()


def main():
    binary, image = arguments("chat.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    with ModelServer() as models, Controller(binary, image, RUNC + models.configuration()) as controller:
        runs = Runs(controller, models)
        workspace = controller.api("POST", "/workspaces", {"name": "bench"})["id"]
        computers = []

        def create(name):
            computer = controller.api("POST", "/computers", {"workspace_id": workspace, "name": name})
            computers.append(computer["id"])
            return computer["id"]

        one_run(controller, runs, create("one"))
        # Beside the runs that are measured one by one, the others would be a load.
        for number in range(1, COMPUTERS):
            create(f"computer-{number}")
        idle_threads(controller, runs, computers)
        crowd(controller, runs, computers)


if __name__ == "__main__":
    main()
