#!/usr/bin/env python3
"""Phases of create, launch, suspend and resume on each engine, as a table in Markdown.

usage: waterfall.py HOTDESK_BINARY IMAGE_FOLDER

Each engine has its own controller, which logs when a phase ends and how long it took (`src/base/time/phase.rs`). A row has the
medians in milliseconds: when the phase begins after the client's request, and how long it takes. Phases overlap where the
engine does work at once, so their sum may be above the whole. Times that are in no row are the controller's own, mostly its
store's. An engine that this build or this host lacks is skipped. Everything is removed at the end.
"""

import json
import os
import statistics
import sys
import time
from datetime import datetime

from controller import RUNC, Controller, RequestFailed
from support import CACHE, QUICK

ROUNDS = 3 if QUICK else 5
RUNSC = os.path.join(CACHE, "runsc/usr/bin/runsc")
# Phases alone, one JSON object a line. Without boot snapshots, a create boots.
LOG = 'log = "warn,hotdesk_base::time::phase=debug"\nlog_json = true\n'
BOOTS = "\n[boot_snapshots]\nkeep = 0\n"
# Configuration lines of each engine, and whether it keeps memory.
ENGINES = {
    "runc": (RUNC, False),
    "gvisor": (f"[engines]\noffered = \"sandbox\"\nrunsc = {json.dumps(RUNSC)}\n", True),
    "qemu": ('[engines]\noffered = "vm"\n', True),
}
# Rows that the client measures, in the order of an operation; and the whole, which is the last row.
ANSWER, COMMAND, WHOLE = "answer of the API", "first command", "until usable"
# Seconds for the last line of a phase to reach the log's file.
LOG_SECONDS = 0.2


class Waterfall:
    """Runs the operations on one engine and collects their phases."""

    def __init__(self, controller):
        self.controller, self.api = controller, controller.api
        self.workspace = self.api("POST", "/workspaces", {"name": "bench"})["id"]
        self.made = 0

    def phases(self, since, computer):
        """The phases of a computer that the log has from an offset on: their name, and their begin and end in Unix seconds."""
        time.sleep(LOG_SECONDS)
        with open(f"{self.controller.folder}/log", "rb") as log:
            log.seek(since)
            lines = [line for line in log if line.startswith(b"{")]
        found = []
        for line in map(json.loads, lines):
            fields = line["fields"]
            if "phase" in fields and fields.get("computer") == computer:
                end = datetime.fromisoformat(line["timestamp"].replace("Z", "+00:00")).timestamp()
                found.append((fields["phase"], end - fields["ms"] / 1000, end))
        return found

    def run(self, work, is_used=True):
        """One operation: its rows, each with its name, its begin after the request and its duration, in milliseconds."""
        since = os.path.getsize(f"{self.controller.folder}/log")
        began = time.time()
        computer = work()
        answered = time.time()
        ended = answered
        if is_used:
            self.api("POST", f"/computers/{computer}/bash", {"command": "true"})
            ended = time.time()
        rows = {}
        for name, begin, end in self.phases(since, computer):
            # A phase that occurs twice is one row from its first begin to its last end.
            earlier = rows.get(name, (begin, end))
            rows[name] = (min(begin, earlier[0]), max(end, earlier[1]))
        rows[ANSWER] = (began, answered)
        if is_used:
            rows[COMMAND] = (answered, ended)
            rows[WHOLE] = (began, ended)
        return computer, {name: ((begin - began) * 1000, (end - begin) * 1000) for name, (begin, end) in rows.items()}

    def create(self):
        self.made += 1
        return self.api("POST", "/computers", {"workspace_id": self.workspace, "name": f"c{self.made}"})["id"]

    def post(self, computer, action, body=None):
        return self.api("POST", f"/computers/{computer}/{action}", body or {})

    def repeated(self, work, is_used=True, is_kept=False):
        """The rows of several rounds. Their computers are removed, unless they are kept for the next round."""
        rounds = []
        for _ in range(ROUNDS):
            computer, rows = self.run(work, is_used)
            rounds.append(rows)
            if not is_kept:
                self.api("DELETE", f"/computers/{computer}")
        return rounds

    def acted(self, computer, action):
        """An operation on a computer that stays."""
        def work():
            self.post(computer, action)
            return computer
        return work

    def operations(self, keeps_memory):
        """The rows of each operation."""
        found = {"create": self.repeated(self.create)}
        if not keeps_memory:
            return found
        computer = self.create()
        self.post(computer, "bash", {"command": "true"})
        suspends, resumes = [], []
        for _ in range(ROUNDS):
            suspends += [self.run(self.acted(computer, "suspend"), is_used=False)[1]]
            resumes += [self.run(self.acted(computer, "resume"))[1]]
        snapshot = self.post(computer, "snapshots", {"memory": True})["id"]
        found["launch from a snapshot"] = self.repeated(lambda: self.post(computer, "fork", {"snapshot_id": snapshot})["id"])
        found["suspend"], found["resume"] = suspends, resumes
        self.api("DELETE", f"/computers/{computer}")
        return found


def table(engine, operation, rounds):
    """Prints the medians of an operation in Markdown."""
    names = {name for rows in rounds for name in rows}
    medians = {}
    for name in names:
        begins, durations = zip(*(rows[name] for rows in rounds if name in rows))
        medians[name] = (statistics.median(begins), statistics.median(durations))
    last = [ANSWER, COMMAND, WHOLE]
    order = sorted(names, key=lambda name: (last.index(name) + 1 if name in last else 0, medians[name][0]))
    print(f"\n| {engine}: {operation} | begins at, ms | takes, ms |\n|---|---|---|")
    for name in order:
        begin, duration = medians[name]
        print(f"| {name} | {begin:.0f} | {duration:.0f} |", flush=True)


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    binary, image = sys.argv[1:]
    for engine, (lines, keeps_memory) in ENGINES.items():
        if RUNSC in lines and not os.path.exists(RUNSC):
            print(f"\n{engine}: skipped: {RUNSC} does not exist (packaging/dev/deps bench)")
            continue
        try:
            with Controller(binary, image, LOG + lines + BOOTS) as controller:
                for operation, rounds in Waterfall(controller).operations(keeps_memory).items():
                    table(engine, operation, rounds)
        except RequestFailed as missing:
            print(f"\n{engine}: skipped: {missing}")


if __name__ == "__main__":
    main()
