#!/usr/bin/env python3
"""Speed and accuracy of clicks and text, beside xdotool, pyautogui and enigo; time of an action with its settled screenshot.

usage: input.py HOTDESK_BINARY PEERS_BINARY

Text goes into an xterm whose program writes its input to a file. The script measures characters a second until the last
one is in the file, and the share of correct characters. enigo is a library in a persistent process: it has no request and
no response. The goals use a raw socket client, because Python's HTTP client alone takes 0.05 ms.
"""

import difflib
import json
import os
import statistics
import subprocess
import sys
import time

from support import Agent, Table, arguments, peer_library, scaled, time_tool, timed

CLICKS = scaled(1000)
# enigo waits 12 ms before each press and each release by default.
DELAYED_CLICKS = scaled(60)
# Number of mixed ASCII characters for enigo, which types about forty a second.
ENIGO = scaled(400)
# Goals: milliseconds, and characters a second.
CLICK_GOAL, ASCII_GOAL, UNICODE_GOAL = 0.2, 10_000, 250
ASCII = "The quick brown fox jumps over the lazy dog; 0123456789! " * scaled(175)
IDEOGRAPHS = "".join(chr(0x4E00 + 7 * n) for n in range(scaled(1000)))
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
        """Seconds until all text arrived (or no more arrives), seconds of the request, and the percentage of correct characters."""
        wanted, at = text.replace("\n", "\r"), os.path.getsize(self.file)
        size = len(wanted.encode())
        started = time.perf_counter()
        send()
        request_time = time.perf_counter() - started
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
            return took, request_time, 100.0
        same = sum(block.size for block in difflib.SequenceMatcher(None, got, wanted, False).get_matching_blocks())
        return took, request_time, min(100.0 * same / max(len(wanted), len(got)), 99.99)


def clicks(agent, peers):
    table = Table("click (ms)", "median", "times hotdesk")
    turn = iter(range(10**9))

    def click():
        n = next(turn)
        agent.api("POST", "/click", {"x": 10 + n % 500, "y": 300})

    ours = table.durations("hotdesk, one request each", timed(click, CLICKS), 1.0)
    client = agent.raw_client()
    # Two points in turn, so that the pointer always moves.
    requests = [client.prepare("POST", "/click", {"x": x, "y": 300}) for x in (100, 400)]
    durations = timed(lambda: requests[next(turn) % 2](), CLICKS)
    bare = table.durations("hotdesk, one request each, bare socket", durations, statistics.median(durations) / ours)
    table.goal("click", bare, most=CLICK_GOAL)
    many = [{"action": "click", "x": 10 + n, "y": 300} for n in range(200)]
    durations = [each / 200 for each in timed(lambda: agent.api("POST", "/actions", many), 5)]
    table.row("hotdesk, each of 200 in a list", statistics.median(durations), statistics.median(durations) / ours)
    python = sys.executable
    for what, command in (
        ("xdotool, a process each", ["xdotool", "mousemove", "400", "300", "click", "1"]),
        ("pyautogui, a process each", [python, "-c", "import pyautogui; pyautogui.click(400, 300)"]),
    ):
        durations, _ = time_tool(agent.display, command, 10, table=table, label=what)
        if durations:
            table.durations(what, durations, statistics.median(durations) / ours)
    # One process with many clicks: what remains is xdotool's own round trip.
    durations, _ = time_tool(agent.display, ["xdotool", "click", "--repeat", "1000", "--delay", "1", "1"], 3)
    table.row("xdotool, each of 1000 in a process, 1 ms apart", durations[1] / 1000, durations[1] / 1000 / ours)
    for what, delay, rounds in (("default delay", "default", DELAYED_CLICKS), ("linux_delay 0", 0, CLICKS)):
        (row,) = peer_library(peers, agent.display, "click", delay, rounds)
        table.row(f"enigo, persistent process, {what}", row["median"], row["median"] / ours)
    loop = ("import pyautogui, time, sys\npyautogui.PAUSE = float(sys.argv[1])\nspans = []\n"
            "for n in range(30):\n    t = time.perf_counter(); pyautogui.click(10 + n, 300)\n"
            "    spans.append((time.perf_counter() - t) * 1000)\nprint(sorted(spans)[15])")
    for pause in ("0.1", "0"):
        what = f"pyautogui, persistent process, PAUSE {pause}"
        ran = subprocess.run([python, "-c", loop, pause], env={**os.environ, "DISPLAY": agent.display},
                             capture_output=True, text=True)
        if ran.returncode:
            table.skip(what, ran.stderr.strip().splitlines()[-1][:50])
        else:
            # python-xlib may print warnings before the figure.
            middle = float(ran.stdout.split()[-1])
            table.row(what, middle, middle / ours)
    table.save()


def moves(agent, peers):
    table = Table("move (ms)", "median", "times hotdesk")
    client, turn = agent.raw_client(), iter(range(10**9))
    durations = timed(lambda: agent.api("POST", "/move", {"x": 10 + next(turn) % 500, "y": 300}), CLICKS)
    ours = table.durations("hotdesk, one request each", durations, 1.0)
    requests = [client.prepare("POST", "/move", {"x": x, "y": 300}) for x in (100, 400)]
    durations = timed(lambda: requests[next(turn) % 2](), CLICKS)
    table.durations("hotdesk, one request each, bare socket", durations, statistics.median(durations) / ours)
    (row,) = peer_library(peers, agent.display, "move", "default", CLICKS)
    table.row("enigo, persistent process", row["median"], row["median"] / ours)
    table.save()


class Enigo:
    """enigo in a process that lives until the receiver has all text: at its end, enigo unbinds the spare keys that it bound."""

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
    table = Table("text into xterm", "characters", "sent/s", "received/s", "% right")
    terminal = Terminal(agent)
    environment = {**os.environ, "DISPLAY": agent.display}

    def row(what, text, send):
        try:
            took, request_time, right = terminal.receive(text, send)
        except subprocess.CalledProcessError as error:
            table.skip(what, f"failed ({error.returncode})")
            return None
        table.row(what, len(text), len(text) / request_time, len(text) / took, right)
        return len(text) / request_time, right

    def judge(what, text, least):
        rate, right = row(f"hotdesk, {what}", text, ours(text))
        table.goal(what, rate, least=least, unit="characters/s")
        table.goal(f"{what}, exact", right, least=100, unit="%")

    def enigo(what, text, delay):
        with Enigo(peers, agent, delay) as process:
            # The first call waits for the start of the process.
            process.type("")
            row(what, text, lambda: process.type(text))

    def tool(*command):
        return lambda: subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)

    def ours(text):
        # A new connection: the server closes idle ones.
        return lambda: agent.connect()("POST", "/type", {"text": text})

    short = ASCII[:1000]
    judge("ASCII", ASCII, ASCII_GOAL)
    row("xdotool --delay 0, ASCII", ASCII, tool("xdotool", "type", "--delay", "0", ASCII))
    row("xdotool default delay, ASCII", short, tool("xdotool", "type", short))
    write = "import pyautogui, sys; pyautogui.PAUSE = 0; pyautogui.write(sys.argv[1])"
    row("pyautogui, PAUSE 0, ASCII", short, tool(sys.executable, "-c", write, short))
    # enigo has no Shift: it binds each character that needs Shift to a spare key, and waits.
    enigo("enigo, persistent process, default delay, ASCII", ASCII[:ENIGO], "default")
    enigo("enigo, persistent process, linux_delay 0, ASCII", ASCII[:ENIGO], 0)
    lower = "".join(one for one in ASCII if one.islower() or one == " ")
    enigo("enigo, persistent process, default delay, lower case and spaces", lower, "default")
    judge("ideographs", IDEOGRAPHS, UNICODE_GOAL)
    row("xdotool --delay 0, ideographs", IDEOGRAPHS, tool("xdotool", "type", "--delay", "0", IDEOGRAPHS))
    some = IDEOGRAPHS[:200]
    row("xdotool default delay, ideographs", some, tool("xdotool", "type", some))
    row("pyautogui, PAUSE 0, ideographs", some, tool(sys.executable, "-c", write, some))
    enigo("enigo, persistent process, default delay, ideographs", IDEOGRAPHS, "default")
    enigo("enigo, persistent process, linux_delay 0, ideographs", IDEOGRAPHS, 0)
    table.save()


def settled(agent, _):
    table = Table("action and settled screenshot (ms)", "median", "times hotdesk")
    settle = {"quiet_ms": 100, "timeout_ms": 3000, "screenshot": {"format": "png"}}

    def ours():
        answer = agent.api("POST", "/key", {"key": "a", "settle": settle})
        assert answer["settle"]["reached"] and answer["screenshot"]["image"], answer

    agent.run("xterm", "-geometry", "80x20+600+300")
    time.sleep(1.5)
    agent.api("POST", "/click", {"x": 700, "y": 400})
    base = table.durations("hotdesk: key, quiet for 100 ms, PNG, one request", timed(ours, scaled(20)), 1.0)
    png = os.path.join(agent.folder, "shot.png")

    def usual():
        environment = {**os.environ, "DISPLAY": agent.display}
        subprocess.run(["xdotool", "key", "a"], check=True, env=environment)
        time.sleep(2)
        subprocess.run(["scrot", "-o", png], check=True, env=environment)

    durations = timed(usual, scaled(5))
    table.durations("xdotool, sleep 2 s, scrot", durations, statistics.median(durations) / base)
    table.save()


def main():
    binary, peers = arguments("input.py HOTDESK_BINARY PEERS_BINARY", 2)
    with Agent(binary, 1280, 720) as agent:
        for measure in (clicks, moves, typing, settled):
            # A new connection: the server closes idle ones.
            agent.api = agent.connect()
            measure(agent, peers)


if __name__ == "__main__":
    main()
