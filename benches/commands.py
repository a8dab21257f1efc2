#!/usr/bin/env python3
"""Time of commands, Python calls and input through the controller, over runc and gVisor.

usage: commands.py HOTDESK_BINARY IMAGE_FOLDER

Requests come one directly after another, as of a script, and with pauses, as of a program that thinks between its steps.
Pauses give the agent time to make processes for the next command.
"""

import os
import time

from controller import RUNC, Controller
from lifecycle import RUNSC, SETTLE_SECONDS
from support import Table, arguments, scaled, timed

ROUNDS = scaled(100)
SESSIONS = scaled(7)
# Seconds between two requests.
PAUSE = 0.3
ENGINES = {
    "runc": RUNC,
    "gVisor": f'[engines]\noffered = "sandbox"\nrunsc = "{RUNSC}"\n',
}


def paused(work, rounds):
    """Milliseconds of each call, with pauses between the calls."""
    durations = []
    for _ in range(rounds):
        time.sleep(PAUSE)
        durations += timed(work, 1)
    return durations


def measure(controller, name):
    table = Table(f"commands and input over {name} (ms)", "median")
    workspace = controller.api("POST", "/workspaces", {"name": "bench"})["id"]
    path = "/computers/" + controller.api("POST", "/computers", {"workspace_id": workspace, "name": "one"})["id"]

    def post(action, body):
        return lambda: controller.api("POST", f"{path}/{action}", body)

    true, click = post("bash", {"command": "true"}), post("click", {"x": 640, "y": 700})
    true()
    time.sleep(SETTLE_SECONDS)
    for what, work in (("bash `true`", true), ("bash `ls /usr`", post("bash", {"command": "ls /usr"})),
                       ("Python, a process each", post("exec", {"code": "1", "timeout": 60})), ("click", click),
                       ("move", post("move", {"x": 641, "y": 700}))):
        work()
        table.durations(f"{what}, one after another", timed(work, ROUNDS))
        table.durations(f"{what}, {PAUSE * 1000:.0f} ms apart", paused(work, ROUNDS // 4 or 1))
    sessions = iter(range(SESSIONS))
    first = paused(lambda: post("exec", {"code": "1", "session": f"s{next(sessions)}", "timeout": 60})(), SESSIONS)
    table.durations("Python session, first call", first)
    table.durations("Python session, further call", timed(post("exec", {"code": "1", "session": "s0"}), ROUNDS))
    table.save()


def main():
    binary, image = arguments("commands.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    for name, lines in ENGINES.items():
        if RUNSC in lines and not os.path.exists(RUNSC):
            print(f"skipped: {name}: {RUNSC} does not exist (packaging/dev/deps bench)")
            continue
        with Controller(binary, image, lines) as controller:
            measure(controller, name)


if __name__ == "__main__":
    main()
