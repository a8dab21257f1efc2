#!/usr/bin/env python3
"""Overhead of the controller: the same requests at the agent of a computer, directly and through the controller.

usage: proxy.py HOTDESK_BINARY IMAGE_FOLDER

Boots its own controller with one computer that is full of text, and removes everything at the end. The goal is one
millisecond, so requests of tens of milliseconds with a large variance are shown but not judged.
"""

import random
import statistics
import time

from controller import Api, Controller
from support import RawClient, Table, arguments, scaled, timed

ROUNDS = scaled(100)
# Goals in milliseconds: the controller's overhead, and a click at the agent.
OVERHEAD_GOAL, CLICK_GOAL = 1, 0.2


def main():
    binary, image = arguments("proxy.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    with Controller(binary, image) as controller:
        measure(controller)


def measure(controller):
    api = controller.api
    workspace = api("POST", "/workspaces", {"name": "bench"})["id"]
    computer = api("POST", "/computers", {"workspace_id": workspace, "name": "one", "cpu": 2})["id"]
    agent = controller.agent(computer)
    public = Api(api.connection, "", f"/api/computers/{computer}")
    public.headers = api.headers
    page = ("for i in $(seq 80); do printf '\\033[3%dm%s\\033[0m ' $((i % 8)) \"$(head -c 90 /dev/urandom | base64 -w0)\";"
            " done; exec sleep 1000")
    for x, y in ((0, 0), (640, 0), (0, 360), (640, 360)):
        api("POST", f"/computers/{computer}/launch",
            {"argv": ["xterm", "-geometry", f"106x27+{x}+{y}", "-e", "sh", "-c", page], "wait_seconds": 10})
    time.sleep(3)
    table = Table("through the controller (ms)", "agent", "controller", "overhead", "best overhead", "bytes")
    place, chance = iter(range(10**9)), random.Random(7)

    def move_pointer():
        # The pointer at a new position changes the screenshot.
        agent("POST", "/move", {"x": 100 + next(place) % 900, "y": 300})

    def compare(what, method, path, body=None, rounds=ROUNDS, before=None, judged=True):
        size = len(agent.raw(method, path, body))
        # In random order, so that both run under the same load.
        durations = {agent: [], public: []}
        for _ in range(rounds):
            for caller in (agent, public) if chance.random() < 0.5 else (public, agent):
                durations[caller] += timed(lambda: caller.raw(method, path, body), 1, before)
        direct, through = (statistics.median(durations[caller]) for caller in durations)
        best = min(durations[public]) - min(durations[agent])
        table.row(what, direct, through, through - direct, best, size)
        if judged:
            table.goal(f"overhead of the controller: {what}", through - direct, most=OVERHEAD_GOAL)

    shot = "/screenshot?response_format=binary"
    compare("screenshot, changed, PNG", "GET", shot, before=move_pointer)
    compare("screenshot, changed, JPEG", "GET", shot + "&format=jpeg", before=move_pointer)
    compare("screenshot, unchanged, PNG", "GET", shot)
    compare("click", "POST", "/click", {"x": 640, "y": 700})
    # Without Python's HTTP client, which alone takes 0.05 ms. The rest is a wait for the X server, which serves the programs that
    # the click woke.
    client = RawClient(controller.socket(computer), controller.credentials(computer)[0])
    bare = timed(client.prepare("POST", "/click", {"x": 640, "y": 700}), 5 * ROUNDS)
    table.goal("click in a full desktop, at the agent's socket", statistics.median(bare), most=CLICK_GOAL)
    compare("100 ASCII characters", "POST", "/type", {"text": "abcdefghi " * 10}, scaled(30))
    compare("20 clicks in a list", "POST", "/actions", [{"action": "click", "x": 640, "y": 700}] * 20, scaled(30), judged=False)
    settle = {"quiet_ms": 100, "timeout_ms": 2000, "screenshot": {"format": "jpeg"}}
    compare("click, settled (100 ms), JPEG", "POST", "/click", {"x": 640, "y": 700, "settle": settle}, scaled(10), judged=False)
    elements(api, agent, computer, table, compare)
    table.save()


def elements(api, agent, computer, table, compare):
    label = "elements of a browser page with 400 buttons"
    try:
        agent.raw("GET", "/elements")
    except SystemExit:
        return table.skip(label, "this agent has no elements")
    page = ("<h1>Heading</h1><script>for (let i = 0; i < 400; i++) document.body.insertAdjacentHTML('beforeend', "
            "`<p>Item ${i} <button>Button ${i}</button></p>`)</script>")
    api("POST", f"/computers/{computer}/exec", {"code": f"open('/root/page.html', 'w').write({page!r})"})
    launched = api("POST", f"/computers/{computer}/bash", {"command": "command -v chromium || true"})
    if "chromium" not in launched["output"]:
        return table.skip(label, "no browser in this image")
    api("POST", f"/computers/{computer}/launch", {"command": "chromium /root/page.html", "wait_seconds": 60})
    time.sleep(5)
    compare(label + ", visible", "GET", "/elements", rounds=scaled(20), judged=False)
    compare(label + ", all", "GET", "/elements?include=all", rounds=scaled(10), judged=False)


if __name__ == "__main__":
    main()
