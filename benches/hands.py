#!/usr/bin/env python3
"""How fast and how exact are clicks and text, beside xdotool and pyautogui? And an action with its settled picture?

usage: hands.py HOTDESK_BINARY

Text goes into an xterm whose program writes what it reads to a file: characters a second until the last is in the file,
and how many of them are right.
"""

import difflib
import os
import statistics
import subprocess
import sys
import time

from kit import Agent, Topic, arguments, peer, timed

CLICKS = 1000
ASCII = "The quick brown fox jumps over the lazy dog; 0123456789! " * 175
IDEOGRAPHS = "".join(chr(0x4E00 + 7 * n) for n in range(1000))
PATIENCE = 8


class Terminal:
    def __init__(self, agent):
        self.file = os.path.join(agent.folder, "text")
        ready = os.path.join(agent.folder, "ready")
        script = f"stty raw -echo; : > {self.file}; : > {ready}; exec cat >> {self.file}"
        agent.run("xterm", "-u8", "-geometry", "100x40+0+0", "-e", "sh", "-c", script)
        agent.wait_for(lambda: os.path.exists(ready), "the terminal")
        agent.api("POST", "/click", {"x": 100, "y": 100})
        time.sleep(0.5)

    def receive(self, text, send):
        """Seconds until all came (or no more comes), seconds until it was said to be sent, and the share that is right."""
        wanted, at = text.replace("\n", "\r"), os.path.getsize(self.file)
        size = len(wanted.encode())
        started = time.perf_counter()
        send()
        said = time.perf_counter() - started
        grown, last = time.perf_counter(), -1
        while (now := os.path.getsize(self.file) - at) < size and time.perf_counter() - grown < PATIENCE:
            if now != last:
                grown, last = time.perf_counter(), now
            time.sleep(0.001)
        took = (time.perf_counter() if now >= size else grown) - started
        with open(self.file, "rb") as file:
            file.seek(at)
            got = file.read().decode(errors="replace")
        if got == wanted:
            return took, said, 100.0
        same = sum(block.size for block in difflib.SequenceMatcher(None, got, wanted, False).get_matching_blocks())
        return took, said, min(100.0 * same / max(len(wanted), len(got)), 99.99)


def clicks(agent):
    topic = Topic("click (ms)", "median", "times hotdesk")
    place = iter(range(10**9))

    def click():
        n = next(place)
        agent.api("POST", "/click", {"x": 10 + n % 500, "y": 300})

    ours = topic.spans("hotdesk, one request each", timed(click, CLICKS), 1.0)
    many = [{"action": "click", "x": 10 + n, "y": 300} for n in range(200)]
    spans = [span / 200 for span in timed(lambda: agent.api("POST", "/actions", many), 5)]
    topic.row("hotdesk, each of 200 in a list", statistics.median(spans), statistics.median(spans) / ours)
    python = sys.executable
    for what, command in (
        ("xdotool, a process each", ["xdotool", "mousemove", "400", "300", "click", "1"]),
        ("pyautogui, a process each", [python, "-c", "import pyautogui; pyautogui.click(400, 300)"]),
    ):
        spans, _ = peer(agent.display, command, 10, topic=topic, what=what)
        if spans:
            topic.spans(what, spans, statistics.median(spans) / ours)
    # One process that clicks many times: what is left is xdotool's own round trip.
    spans, _ = peer(agent.display, ["xdotool", "click", "--repeat", "1000", "--delay", "1", "1"], 3)
    topic.row("xdotool, each of 1000 in a process, 1 ms apart", spans[1] / 1000, spans[1] / 1000 / ours)
    topic.skip("enigo, xcap", "left out: Rust crates, no tools; ARCHITECTURE.md has figures of theirs")
    loop = ("import pyautogui, time, sys\npyautogui.PAUSE = float(sys.argv[1])\nspans = []\n"
            "for n in range(30):\n    t = time.perf_counter(); pyautogui.click(10 + n, 300)\n"
            "    spans.append((time.perf_counter() - t) * 1000)\nprint(sorted(spans)[15])")
    for pause in ("0.1", "0"):
        what = f"pyautogui, process kept, PAUSE {pause}"
        ran = subprocess.run([python, "-c", loop, pause], env={**os.environ, "DISPLAY": agent.display},
                             capture_output=True, text=True)
        if ran.returncode:
            topic.skip(what, ran.stderr.strip().splitlines()[-1][:50])
        else:
            # python-xlib prints warnings before it.
            middle = float(ran.stdout.split()[-1])
            topic.row(what, middle, middle / ours)
    topic.keep()


def typing(agent):
    topic = Topic("text into xterm", "characters", "sent/s", "received/s", "% right")
    terminal = Terminal(agent)
    environment = {**os.environ, "DISPLAY": agent.display}

    def row(what, text, send):
        try:
            took, said, right = terminal.receive(text, send)
        except subprocess.CalledProcessError as error:
            return topic.skip(what, f"it failed ({error.returncode})")
        topic.row(what, len(text), len(text) / said, len(text) / took, right)

    def tool(*command):
        return lambda: subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)

    ours = lambda text: lambda: agent.api("POST", "/type", {"text": text})  # noqa: E731
    short = ASCII[:1000]
    row("hotdesk, ASCII", ASCII, ours(ASCII))
    row("xdotool --delay 0, ASCII", ASCII, tool("xdotool", "type", "--delay", "0", ASCII))
    row("xdotool as it is, ASCII", short, tool("xdotool", "type", short))
    write = "import pyautogui, sys; pyautogui.PAUSE = 0; pyautogui.write(sys.argv[1])"
    row("pyautogui, PAUSE 0, ASCII", short, tool(sys.executable, "-c", write, short))
    row("hotdesk, ideographs", IDEOGRAPHS, ours(IDEOGRAPHS))
    row("xdotool --delay 0, ideographs", IDEOGRAPHS, tool("xdotool", "type", "--delay", "0", IDEOGRAPHS))
    few = IDEOGRAPHS[:200]
    row("xdotool as it is, ideographs", few, tool("xdotool", "type", few))
    row("pyautogui, PAUSE 0, ideographs", few, tool(sys.executable, "-c", write, few))
    topic.keep()


def settled(agent):
    topic = Topic("action and settled screenshot (ms)", "median", "times hotdesk")
    settle = {"quiet_ms": 100, "timeout_ms": 3000, "screenshot": {"format": "png"}}

    def ours():
        answer = agent.api("POST", "/key", {"key": "a", "settle": settle})
        assert answer["settle"]["reached"] and answer["screenshot"]["image"], answer

    agent.run("xterm", "-geometry", "80x20+600+300")
    time.sleep(1.5)
    agent.api("POST", "/click", {"x": 700, "y": 400})
    base = topic.spans("hotdesk: key, quiet for 100 ms, PNG, one request", timed(ours, 20), 1.0)
    png = os.path.join(agent.folder, "shot.png")

    def usual():
        environment = {**os.environ, "DISPLAY": agent.display}
        subprocess.run(["xdotool", "key", "a"], check=True, env=environment)
        time.sleep(2)
        subprocess.run(["scrot", "-o", png], check=True, env=environment)

    spans = timed(usual, 5)
    topic.spans("xdotool, sleep 2 s, scrot", spans, statistics.median(spans) / base)
    topic.keep()


def main():
    (binary,) = arguments("hands.py HOTDESK_BINARY", 1)
    with Agent(binary, 1280, 720) as agent:
        for topic in (clicks, typing, settled):
            # A connection that was idle for long is closed.
            agent.api = agent.connect()
            topic(agent)


if __name__ == "__main__":
    main()
