#!/usr/bin/env python3
"""How fast and how exact are clicks and text, beside xdotool, pyautogui and enigo? And an action with its settled picture?

usage: hands.py HOTDESK_BINARY PEERS_BINARY

Text goes into an xterm whose program writes what it reads to a file: characters a second until the last is in the file,
and how many of them are right. enigo is a library in a process that is kept: no request, no answer, nothing observed.
The goals are judged by a client that costs next to nothing, because Python's HTTP client alone takes 0.05 ms.
"""

import difflib
import json
import os
import statistics
import subprocess
import sys
import time

from kit import Agent, Topic, arguments, few, library, peer, timed

CLICKS = few(1000)
# enigo waits 12 ms before each press and each release, unless told otherwise.
DELAYED_CLICKS = few(60)
# Characters of mixed ASCII that it gets: it types some forty a second.
ENIGO = few(400)
# What the issue asks for: milliseconds, and characters a second.
CLICK_GOAL, ASCII_GOAL, UNICODE_GOAL = 0.2, 10_000, 250
ASCII = "The quick brown fox jumps over the lazy dog; 0123456789! " * few(175)
IDEOGRAPHS = "".join(chr(0x4E00 + 7 * n) for n in range(few(1000)))
TIMEOUT = 8


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
        while (now := os.path.getsize(self.file) - at) < size and time.perf_counter() - grown < TIMEOUT:
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


def clicks(agent, peers):
    topic = Topic("click (ms)", "median", "times hotdesk")
    place = iter(range(10**9))

    def click():
        n = next(place)
        agent.api("POST", "/click", {"x": 10 + n % 500, "y": 300})

    ours = topic.spans("hotdesk, one request each", timed(click, CLICKS), 1.0)
    wire = agent.wire()
    # Two places in turn, so that the pointer has a way to go.
    both = [wire.ask("POST", "/click", {"x": x, "y": 300}) for x in (100, 400)]
    spans = timed(lambda: both[next(place) % 2](), CLICKS)
    bare = topic.spans("hotdesk, one request each, bare socket", spans, statistics.median(spans) / ours)
    topic.goal("click", bare, most=CLICK_GOAL)
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
    for what, delay, rounds in (("as it is", "default", DELAYED_CLICKS), ("linux_delay 0", 0, CLICKS)):
        (row,) = library(peers, agent.display, "click", delay, rounds)
        topic.row(f"enigo, process kept, {what}", row["median"], row["median"] / ours)
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


def moves(agent, peers):
    topic = Topic("move (ms)", "median", "times hotdesk")
    wire, turn = agent.wire(), iter(range(10**9))
    spans = timed(lambda: agent.api("POST", "/move", {"x": 10 + next(turn) % 500, "y": 300}), CLICKS)
    ours = topic.spans("hotdesk, one request each", spans, 1.0)
    both = [wire.ask("POST", "/move", {"x": x, "y": 300}) for x in (100, 400)]
    spans = timed(lambda: both[next(turn) % 2](), CLICKS)
    topic.spans("hotdesk, one request each, bare socket", spans, statistics.median(spans) / ours)
    (row,) = library(peers, agent.display, "move", "default", CLICKS)
    topic.row("enigo, process kept", row["median"], row["median"] / ours)
    topic.keep()


class Enigo:
    """enigo in a process that is kept until all it typed has come: what it bound to spare keys is unbound when it goes."""

    def __init__(self, peers, agent, delay):
        environment = {**os.environ, "DISPLAY": agent.display}
        self.process = subprocess.Popen([peers, "type", str(delay)], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def type(self, text):
        self.process.stdin.write(json.dumps(text) + "\n")
        self.process.stdin.flush()
        if not self.process.stdout.readline():
            raise subprocess.CalledProcessError(self.process.wait(), "enigo")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def typing(agent, peers):
    topic = Topic("text into xterm", "characters", "sent/s", "received/s", "% right")
    terminal = Terminal(agent)
    environment = {**os.environ, "DISPLAY": agent.display}

    def row(what, text, send):
        try:
            took, said, right = terminal.receive(text, send)
        except subprocess.CalledProcessError as error:
            topic.skip(what, f"it failed ({error.returncode})")
            return None
        topic.row(what, len(text), len(text) / said, len(text) / took, right)
        return len(text) / said, right

    def judged(what, text, least):
        rate, right = row(f"hotdesk, {what}", text, ours(text))
        topic.goal(what, rate, least=least, unit="characters/s")
        topic.goal(f"{what}, exact", right, least=100, unit="%")

    def enigo(what, text, delay):
        with Enigo(peers, agent, delay) as kept:
            # Its first key would wait for it to start.
            kept.type("")
            row(what, text, lambda: kept.type(text))

    def tool(*command):
        return lambda: subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)

    def ours(text):
        # A connection of its own: one that was idle for long is closed.
        return lambda: agent.connect()("POST", "/type", {"text": text})

    short = ASCII[:1000]
    judged("ASCII", ASCII, ASCII_GOAL)
    row("xdotool --delay 0, ASCII", ASCII, tool("xdotool", "type", "--delay", "0", ASCII))
    row("xdotool as it is, ASCII", short, tool("xdotool", "type", short))
    write = "import pyautogui, sys; pyautogui.PAUSE = 0; pyautogui.write(sys.argv[1])"
    row("pyautogui, PAUSE 0, ASCII", short, tool(sys.executable, "-c", write, short))
    # It has no Shift: what is not on a key by itself it binds to a spare one, and waits.
    enigo("enigo, process kept, as it is, ASCII", ASCII[:ENIGO], "default")
    enigo("enigo, process kept, linux_delay 0, ASCII", ASCII[:ENIGO], 0)
    lower = "".join(one for one in ASCII if one.islower() or one == " ")
    enigo("enigo, process kept, as it is, lower case and spaces", lower, "default")
    judged("ideographs", IDEOGRAPHS, UNICODE_GOAL)
    row("xdotool --delay 0, ideographs", IDEOGRAPHS, tool("xdotool", "type", "--delay", "0", IDEOGRAPHS))
    some = IDEOGRAPHS[:200]
    row("xdotool as it is, ideographs", some, tool("xdotool", "type", some))
    row("pyautogui, PAUSE 0, ideographs", some, tool(sys.executable, "-c", write, some))
    enigo("enigo, process kept, as it is, ideographs", IDEOGRAPHS, "default")
    enigo("enigo, process kept, linux_delay 0, ideographs", IDEOGRAPHS, 0)
    topic.keep()


def settled(agent, _):
    topic = Topic("action and settled screenshot (ms)", "median", "times hotdesk")
    settle = {"quiet_ms": 100, "timeout_ms": 3000, "screenshot": {"format": "png"}}

    def ours():
        answer = agent.api("POST", "/key", {"key": "a", "settle": settle})
        assert answer["settle"]["reached"] and answer["screenshot"]["image"], answer

    agent.run("xterm", "-geometry", "80x20+600+300")
    time.sleep(1.5)
    agent.api("POST", "/click", {"x": 700, "y": 400})
    base = topic.spans("hotdesk: key, quiet for 100 ms, PNG, one request", timed(ours, few(20)), 1.0)
    png = os.path.join(agent.folder, "shot.png")

    def usual():
        environment = {**os.environ, "DISPLAY": agent.display}
        subprocess.run(["xdotool", "key", "a"], check=True, env=environment)
        time.sleep(2)
        subprocess.run(["scrot", "-o", png], check=True, env=environment)

    spans = timed(usual, few(5))
    topic.spans("xdotool, sleep 2 s, scrot", spans, statistics.median(spans) / base)
    topic.keep()


def main():
    binary, peers = arguments("hands.py HOTDESK_BINARY PEERS_BINARY", 2)
    with Agent(binary, 1280, 720) as agent:
        for topic in (clicks, moves, typing, settled):
            # A connection that was idle for long is closed.
            agent.api = agent.connect()
            topic(agent, peers)


if __name__ == "__main__":
    main()
