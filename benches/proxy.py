#!/usr/bin/env python3
"""How much does the controller add to what an agent in a computer does? The same requests, directly and through it.

usage: through.py HOTDESK_BINARY IMAGE_FOLDER

Boots a controller of its own with one computer, full of text; everything is removed at the end. What takes tens of
milliseconds itself, and never the same twice, is shown but not judged: the goal is a single millisecond.
"""

import random
import statistics
import time

from house import Api, House
from kit import Topic, Wire, arguments, few, timed

ROUNDS = few(100)
# What the issue asks for, in milliseconds: what the controller adds, and a click in the agent.
MORE_GOAL, CLICK_GOAL = 1, 0.2


def main():
    binary, image = arguments("through.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    with House(binary, image) as house:
        measure(house)


def measure(house):
    api = house.api
    workspace = api("POST", "/workspaces", {"name": "bench"})["id"]
    computer = api("POST", "/computers", {"workspace_id": workspace, "name": "one", "cpu": 2})["id"]
    agent = house.agent(computer)
    public = Api(api.connection, "", f"/api/computers/{computer}")
    public.headers = api.headers
    page = ("for i in $(seq 80); do printf '\\033[3%dm%s\\033[0m ' $((i % 8)) \"$(head -c 90 /dev/urandom | base64 -w0)\";"
            " done; exec sleep 1000")
    for x, y in ((0, 0), (640, 0), (0, 360), (640, 360)):
        api("POST", f"/computers/{computer}/launch",
            {"argv": ["xterm", "-geometry", f"106x27+{x}+{y}", "-e", "sh", "-c", page], "wait_seconds": 10})
    time.sleep(3)
    topic = Topic("through the controller (ms)", "agent", "controller", "more", "best more", "bytes")
    place, chance = iter(range(10**9)), random.Random(7)

    def moved():
        # The pointer in another place makes another picture.
        agent("POST", "/move", {"x": 100 + next(place) % 900, "y": 300})

    def both(what, method, path, body=None, rounds=ROUNDS, before=None, judged=True):
        size = len(agent.raw(method, path, body))
        # In turns that are drawn, so that both meet the same machine.
        spans = {agent: [], public: []}
        for _ in range(rounds):
            for caller in (agent, public) if chance.random() < 0.5 else (public, agent):
                spans[caller] += timed(lambda: caller.raw(method, path, body), 1, before)
        direct, through = (statistics.median(spans[caller]) for caller in spans)
        best = min(spans[public]) - min(spans[agent])
        topic.row(what, direct, through, through - direct, best, size)
        if judged:
            topic.goal(f"more by the controller: {what}", through - direct, most=MORE_GOAL)

    shot = "/screenshot?response_format=binary"
    both("screenshot, changed, PNG", "GET", shot, before=moved)
    both("screenshot, changed, JPEG", "GET", shot + "&format=jpeg", before=moved)
    both("screenshot, unchanged, PNG", "GET", shot)
    both("click", "POST", "/click", {"x": 640, "y": 700})
    # Without Python's HTTP client, which alone takes 0.05 ms. What is left waits for the X server, which serves the programs
    # that the click woke.
    bare = timed(Wire(house.socket(computer), house.stored(computer)[0]).ask("POST", "/click", {"x": 640, "y": 700}), 5 * ROUNDS)
    topic.goal("click in a full desktop, at the agent's socket", statistics.median(bare), most=CLICK_GOAL)
    both("100 ASCII characters", "POST", "/type", {"text": "abcdefghi " * 10}, few(30))
    both("20 clicks in a list", "POST", "/actions", [{"action": "click", "x": 640, "y": 700}] * 20, few(30), judged=False)
    settle = {"quiet_ms": 100, "timeout_ms": 2000, "screenshot": {"format": "jpeg"}}
    both("click, settled (100 ms), JPEG", "POST", "/click", {"x": 640, "y": 700, "settle": settle}, few(10), judged=False)
    elements(api, agent, computer, topic, both)
    topic.keep()


def elements(api, agent, computer, topic, both):
    what = "elements of a browser page with 400 buttons"
    try:
        agent.raw("GET", "/elements")
    except SystemExit:
        return topic.skip(what, "this agent has no elements")
    page = ("<h1>Heading</h1><script>for (let i = 0; i < 400; i++) document.body.insertAdjacentHTML('beforeend', "
            "`<p>Item ${i} <button>Button ${i}</button></p>`)</script>")
    api("POST", f"/computers/{computer}/exec", {"code": f"open('/root/page.html', 'w').write({page!r})"})
    launched = api("POST", f"/computers/{computer}/bash", {"command": "command -v chromium || true"})
    if "chromium" not in launched["output"]:
        return topic.skip(what, "no browser in this image")
    api("POST", f"/computers/{computer}/launch", {"command": "chromium /root/page.html", "wait_seconds": 60})
    time.sleep(5)
    both(what + ", in sight", "GET", "/elements", rounds=few(20), judged=False)
    both(what + ", all", "GET", "/elements?include=all", rounds=few(10), judged=False)


if __name__ == "__main__":
    main()
