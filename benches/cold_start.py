#!/usr/bin/env python3
"""How fast is a computer made, seen and clicked? Figures of hotdesk beside named peers, in one run on one machine.

usage: first_light.py HOTDESK_BINARY IMAGE_FOLDER

Boots a controller of its own, makes computers, measures through the controller and on the agent directly, then runs the
usual tools (scrot, ImageMagick's import, python mss, xdotool) on the same screen of the same computer, and prints
medians, 95th percentiles and ratios. Everything is removed at the end.
"""

import json
import statistics
import sys

from house import House
from kit import timed

ROUNDS = 100
CREATES = 5
PEER_ROUNDS = 15


def report(what, spans):
    ordered = sorted(spans)
    middle, late = statistics.median(ordered), ordered[int(len(ordered) * 0.95) - 1]
    print(f"  {what:<58} {middle:9.2f} {late:9.2f}   n={len(spans)}", flush=True)
    return middle


def peer(api, computer, what, command):
    """Milliseconds of one run of a tool on the computer itself, started anew each time as its users do."""
    loop = (
        "import subprocess,time\n"
        "spans=[]\n"
        f"for _ in range({PEER_ROUNDS}):\n"
        "    t=time.perf_counter(); "
        f"subprocess.run({command!r},check=True,stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL)\n"
        "    spans.append((time.perf_counter()-t)*1000)\n"
        "print(spans)\n"
    )
    ran = api("POST", f"/computers/{computer}/exec", {"code": loop, "timeout": 120})
    if not ran["success"]:
        print(f"  {what:<58} skipped: {ran.get('error_type')} {str(ran.get('error'))[:60]}")
        return None
    return report(what, json.loads(ran["output"].strip().splitlines()[-1]))


def main():
    binary, image = sys.argv[1:3]
    with House(binary, image) as house:
        measure(house)


def measure(house):
    api = house.api
    workspace = api("POST", "/workspaces", {"name": "bench"})["id"]
    print(f"milliseconds{'':<48} {'median':>9} {'p95':>9}")
    made = []

    def create():
        made.append(api("POST", "/computers", {"workspace_id": workspace, "name": f"c{len(made)}", "cpu": 2}))

    report("create to usable desktop (POST /computers)", timed(create, CREATES))
    computer = made[0]["id"]
    for extra in made[1:]:
        api("DELETE", f"/computers/{extra['id']}")
    api("POST", f"/computers/{computer}/bash", {"command": "(nohup mousepad >/dev/null 2>&1 &); sleep 3"})

    agent = house.agent(computer)
    place = iter(range(10**6))

    def nudge():
        n = next(place)
        return {"x": 300 + n % 200, "y": 300}

    shot = "/screenshot?response_format=binary"
    size = len(api.raw("GET", f"/computers/{computer}{shot}"))
    # A pointer move between two shots makes each a new picture.
    moved = lambda: agent("POST", "/move", nudge())  # noqa: E731

    def fresh(caller, path):
        def work():
            caller.raw("GET", path)
        spans = []
        for _ in range(ROUNDS):
            moved()
            spans += timed(work, 1)
        return spans

    direct = report("screenshot, changed, PNG bytes, agent", fresh(agent, shot))
    through = report("screenshot, changed, PNG bytes, controller", fresh(api, f"/computers/{computer}{shot}"))
    report("screenshot, unchanged, PNG bytes, agent", timed(lambda: agent.raw("GET", shot), ROUNDS))
    report("screenshot, unchanged, PNG bytes, controller",
           timed(lambda: api.raw("GET", f"/computers/{computer}{shot}"), ROUNDS))
    report("screenshot, JPEG q80, controller", fresh(api, f"/computers/{computer}{shot}&format=jpeg"))
    report("screenshot, url copy, controller", timed(lambda: api("GET", f"/computers/{computer}/screenshot"), ROUNDS))
    click_direct = report("click, agent", timed(lambda: agent("POST", "/click", nudge()), ROUNDS))
    click = report("click, controller", timed(lambda: api("POST", f"/computers/{computer}/click", nudge()), ROUNDS))
    report("bash 'true', controller",
           timed(lambda: api("POST", f"/computers/{computer}/bash", {"command": "true"}), 30))
    sentence = "The quick brown fox jumps over the lazy dog, again and again. " * 4
    report(f"type {len(sentence)} characters, controller",
           timed(lambda: api("POST", f"/computers/{computer}/type", {"text": sentence}), 10))

    print(f"peers on the same screen, a process each time (hotdesk's PNG: {size} bytes)")
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
    for what, on_agent, on_controller in ratios:
        print(f"  {what:<58} {on_agent:9.1f} {on_controller:9.1f}")


if __name__ == "__main__":
    main()
