#!/usr/bin/env python3
"""Time of a create, a screenshot and a click, beside named tools on the same machine.

usage: cold_start.py HOTDESK_BINARY IMAGE_FOLDER

Boots its own controller, creates computers, and measures through the controller and at the agent directly. Then it runs
scrot, ImageMagick's import, python mss and xdotool on the same screen of the same computer. It prints medians, 95th
percentiles and ratios, and removes everything at the end.
"""

import json
import statistics
import sys

from controller import Controller
from support import timed

ROUNDS = 100
CREATES = 5
PEER_ROUNDS = 15


def report(what, durations):
    ordered = sorted(durations)
    middle, late = statistics.median(ordered), ordered[int(len(ordered) * 0.95) - 1]
    print(f"  {what:<58} {middle:9.2f} {late:9.2f}   n={len(durations)}", flush=True)
    return middle


def peer(api, computer, what, command):
    """Milliseconds of one run of a tool on the computer, in a new process each time, as people use it."""
    loop = (
        "import subprocess,time\n"
        "durations=[]\n"
        f"for _ in range({PEER_ROUNDS}):\n"
        "    t=time.perf_counter(); "
        f"subprocess.run({command!r},check=True,stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL)\n"
        "    durations.append((time.perf_counter()-t)*1000)\n"
        "print(durations)\n"
    )
    ran = api("POST", f"/computers/{computer}/exec", {"code": loop, "timeout": 120})
    if not ran["success"]:
        print(f"  {what:<58} skipped: {ran.get('error_type')} {str(ran.get('error'))[:60]}")
        return None
    return report(what, json.loads(ran["output"].strip().splitlines()[-1]))


def main():
    binary, image = sys.argv[1:3]
    with Controller(binary, image) as controller:
        measure(controller)


def measure(controller):
    api = controller.api
    workspace = api("POST", "/workspaces", {"name": "bench"})["id"]
    print(f"milliseconds{'':<48} {'median':>9} {'p95':>9}")
    created = []

    def create():
        created.append(api("POST", "/computers", {"workspace_id": workspace, "name": f"c{len(created)}", "cpu": 2}))

    report("create to usable desktop (POST /computers)", timed(create, CREATES))
    computer = created[0]["id"]
    for extra in created[1:]:
        api("DELETE", f"/computers/{extra['id']}")
    api("POST", f"/computers/{computer}/bash", {"command": "(nohup mousepad >/dev/null 2>&1 &); sleep 3"})

    agent = controller.agent(computer)
    place = iter(range(10**6))

    def nudge():
        n = next(place)
        return {"x": 300 + n % 200, "y": 300}

    shot = "/screenshot?response_format=binary"
    size = len(api.raw("GET", f"/computers/{computer}{shot}"))
    # A pointer move between two screenshots changes the picture.
    move_pointer = lambda: agent("POST", "/move", nudge())  # noqa: E731

    def changed_screenshots(caller, path):
        def work():
            caller.raw("GET", path)
        durations = []
        for _ in range(ROUNDS):
            move_pointer()
            durations += timed(work, 1)
        return durations

    direct = report("screenshot, changed, PNG bytes, agent", changed_screenshots(agent, shot))
    through = report("screenshot, changed, PNG bytes, controller", changed_screenshots(api, f"/computers/{computer}{shot}"))
    report("screenshot, unchanged, PNG bytes, agent", timed(lambda: agent.raw("GET", shot), ROUNDS))
    report("screenshot, unchanged, PNG bytes, controller",
           timed(lambda: api.raw("GET", f"/computers/{computer}{shot}"), ROUNDS))
    report("screenshot, JPEG q80, controller", changed_screenshots(api, f"/computers/{computer}{shot}&format=jpeg"))
    report("screenshot, url copy, controller", timed(lambda: api("GET", f"/computers/{computer}/screenshot"), ROUNDS))
    click_direct = report("click, agent", timed(lambda: agent("POST", "/click", nudge()), ROUNDS))
    click = report("click, controller", timed(lambda: api("POST", f"/computers/{computer}/click", nudge()), ROUNDS))
    report("bash 'true', controller",
           timed(lambda: api("POST", f"/computers/{computer}/bash", {"command": "true"}), 30))
    sentence = "The quick brown fox jumps over the lazy dog, again and again. " * 4
    report(f"type {len(sentence)} characters, controller",
           timed(lambda: api("POST", f"/computers/{computer}/type", {"text": sentence}), 10))

    print(f"tools on the same screen, a new process each time (hotdesk's PNG: {size} bytes)")
    shots = {
        "scrot": ["scrot", "-o", "/tmp/shot.png"],
        "import (ImageMagick)": ["import", "-window", "root", "/tmp/shot.png"],
        "python mss": ["python3", "-c", "import mss; mss.mss().shot(output='/tmp/shot.png')"],
        "python pyautogui": ["python3", "-c", "import pyautogui; pyautogui.screenshot('/tmp/shot.png')"],
    }
    ratios = []
    for name, command in shots.items():
        middle = peer(api, computer, f"screenshot: {name}", command)
        if middle:
            ratios.append((f"screenshot against {name}", middle / direct, middle / through))
    for name, command in {
        "xdotool": ["xdotool", "mousemove", "400", "300", "click", "1"],
        "python pyautogui": ["python3", "-c", "import pyautogui; pyautogui.click(400, 300)"],
    }.items():
        middle = peer(api, computer, f"click: {name}", command)
        if middle:
            ratios.append((f"click against {name}", middle / click_direct, middle / click))
    print(f"times faster{'':<48} {'agent':>9} {'controller':>9}")
    for label, on_agent, on_controller in ratios:
        print(f"  {label:<58} {on_agent:9.1f} {on_controller:9.1f}")


if __name__ == "__main__":
    main()
