#!/usr/bin/env python3
"""Cost of the host helper: the same requests at a controller that makes its computers itself, and at one beside a helper.

usage: split.py HOTDESK_BINARY IMAGE_FOLDER

Requests to a computer do not pass through the helper, so both must take the same time.
"""

import os
import random
import statistics
import subprocess

from controller import Controller
from support import Table, arguments, scaled, timed

ROUNDS = scaled(400)
STREAMS = scaled(40)
# Most milliseconds that the split may add to a click, and per cent to the time of a stream: two runs differ by as much.
CLICK_GOAL, STREAM_GOAL = 0.3, 5
STREAM_BYTES = 32 << 20
# No account has this number.
USER = 63871


class SplitController(Controller):
    """A controller without privileges, with its host helper."""

    def start(self):
        os.chmod(self.folder, 0o711)
        with open(f"{self.folder}/hotdesk.toml", "a") as file:
            file.write(f'\n[host]\nsocket = "{self.folder}/host.sock"\nuser = "{USER}"\n')
        with open(f"{self.folder}/log", "a") as log:
            self.helper = subprocess.Popen(
                [self.binary, "host", "--config", f"{self.folder}/hotdesk.toml", "--data-dir", self.data, "--image",
                 self.image], stdout=subprocess.PIPE, stderr=log, text=True)
        if not self.helper.stdout.readline().startswith("host helper is ready"):
            raise SystemExit(f"no host helper; see {self.folder}/log")
        super().start()

    def remove(self):
        self.helper.terminate()
        self.helper.wait(60)
        super().remove()


def main():
    binary, image = arguments("split.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    with Controller(binary, image) as one, SplitController(binary, image) as split:
        measure({"one process": one, "two processes": split})


def measure(controllers):
    table = Table("host helper in a process of its own (ms)", *controllers, "difference")
    computers = {}
    for name, controller in controllers.items():
        api = controller.api
        workspace = api("POST", "/workspaces", {"name": "bench"})["id"]
        computers[name] = api("POST", "/computers", {"workspace_id": workspace, "name": "one", "cpu": 1})["id"]
        api("POST", f"/computers/{computers[name]}/bash", {"command": f"head -c {STREAM_BYTES} /dev/urandom >/root/blob"})
    chance = random.Random(7)

    def compare(what, rounds, send):
        durations = {name: [] for name in controllers}
        for _ in range(rounds):
            # In random order, so that all run under the same load.
            for name in chance.sample(list(controllers), len(controllers)):
                path = f"/computers/{computers[name]}"
                durations[name] += timed(lambda: send(controllers[name].api, path), 1)
        one, two = (statistics.median(times) for times in durations.values())
        table.row(what, one, two, two - one)
        return one, two

    one, two = compare("click", ROUNDS, lambda api, path: api.raw("POST", path + "/click", {"x": 640, "y": 700}))
    table.goal("what a host helper adds to a click", two - one, most=CLICK_GOAL)
    what = f"stream of {STREAM_BYTES >> 20} MiB"
    one, two = compare(what, STREAMS, lambda api, path: api.raw("GET", path + "/files/content?path=/root/blob"))
    table.goal("what a host helper adds to a stream", 100 * (two / one - 1), most=STREAM_GOAL, unit="%")
    table.save()


if __name__ == "__main__":
    main()
