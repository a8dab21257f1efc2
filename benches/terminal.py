#!/usr/bin/env python3
"""How fast is a terminal? The same output through hotdesk's terminal and through ttyd's, to the same kind of client.

usage: terminal.py HOTDESK_BINARY
"""

import json
import os
import random
import statistics
import subprocess
import tempfile
import time

from websockets.sync.client import connect, unix_connect

from kit import CACHE, SECONDS, Agent, Topic, arguments

ROUNDS = 5
NUMBERS = 6_500_000
# The marks are typed in two parts, so that the echo of the line is not taken for them.
COMMAND = f"clear; echo be''gin; seq {NUMBERS}; echo en''d\r"
ECHOES = 300
TTYD = os.path.join(CACHE, "ttyd")
PLUGIN = "libwebsockets-evlib_uv.so"
# Neither end compresses, and no message is too long.
PLAIN = {"compression": None, "max_size": None}


class Hotdesk:
    """The agent's terminal: JSON in text frames."""

    def __init__(self, agent):
        self.opening = unix_connect(agent.socket, f"ws://agent/ws/terminal?token={agent.token}", **PLAIN)

    def __enter__(self):
        self.socket = self.opening.__enter__()
        return self

    def __exit__(self, *why):
        self.opening.__exit__(*why)

    def type(self, text):
        self.socket.send(json.dumps({"type": "input", "data": text}))

    def read(self):
        return json.loads(self.socket.recv()).get("data", "")


class Ttyd(Hotdesk):
    """ttyd's: a byte that says what it is, then the characters, in binary frames."""

    def __init__(self, port):
        self.opening = connect(f"ws://127.0.0.1:{port}/ws", subprotocols=["tty"], **PLAIN)

    def __enter__(self):
        super().__enter__()
        self.socket.send(json.dumps({"AuthToken": "", "columns": 80, "rows": 24}).encode())
        return self

    def type(self, text):
        self.socket.send(b"0" + text.encode())

    def read(self):
        message = self.socket.recv()
        # A character may be cut; this output has none that could be.
        return message[1:].decode(errors="replace") if message[:1] == b"0" else ""


def until(terminal, mark):
    """What was written before the mark, as a count, and the last of it."""
    count, tail = 0, ""
    while True:
        text = terminal.read()
        count += len(text)
        tail = tail[-len(mark):] + text
        if mark in tail:
            return count


def flood(make):
    """Megabytes a second of one flood, and how many milliseconds a key waits when it is interrupted."""
    with make() as terminal:
        terminal.type(COMMAND)
        until(terminal, "begin\r\n")
        started = time.perf_counter()
        count = until(terminal, "end\r\n")
        rate = count / (time.perf_counter() - started) / 1e6
        terminal.type("yes\r")
        stop = time.perf_counter() + 1
        while time.perf_counter() < stop:
            terminal.read()
        started = time.perf_counter()
        terminal.type("\x03")
        terminal.type("echo af''ter\r")
        until(terminal, "after\r\n")
        return rate, (time.perf_counter() - started) * 1000


def echoes(make):
    """Milliseconds from a key to its echo."""
    with make() as terminal:
        terminal.type("stty -icanon; echo u''p; cat >/dev/null\r")
        until(terminal, "up\r\n")
        # The line is done when cat reads.
        time.sleep(0.5)
        spans = []
        for _ in range(ECHOES):
            started = time.perf_counter()
            terminal.type("x")
            until(terminal, "x")
            spans.append((time.perf_counter() - started) * 1000)
        return spans


def serve_ttyd(folder):
    """ttyd on a free port, with the libraries of the Debian that it is a package of: its process and the port."""
    library = os.path.join(TTYD, "usr/lib/x86_64-linux-gnu")
    # Its event loop is a plug-in that it looks for here. The shell, which inherits the variable, finds nothing else.
    os.symlink(os.path.join(library, PLUGIN), os.path.join(folder, PLUGIN))
    port = random.randint(20000, 30000)
    process = subprocess.Popen(
        [os.path.join(library, "ld-linux-x86-64.so.2"), "--library-path", library, os.path.join(TTYD, "usr/bin/ttyd"),
         "-W", "-i", "127.0.0.1", "-p", str(port), "/bin/bash", "--login"],
        env=os.environ | {"LD_LIBRARY_PATH": folder}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    late = time.time() + SECONDS
    while process.poll() is None and time.time() < late:
        try:
            with Ttyd(port):
                return process, port
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise SystemExit("ttyd did not come")


def main():
    [binary] = arguments("terminal.py HOTDESK_BINARY", 1)
    topic = Topic("terminal", "MB/s", "ctrl+c ms", "echo ms", "p99 ms")
    peer = None
    with Agent(binary, 800, 600) as agent, tempfile.TemporaryDirectory() as folder:
        makers = {"hotdesk": lambda: Hotdesk(agent)}
        if os.path.exists(os.path.join(TTYD, "usr/bin/ttyd")):
            peer, port = serve_ttyd(folder)
            makers["ttyd"] = lambda: Ttyd(port)
        else:
            topic.skip("ttyd", "not installed (make deps-bench)")
        try:
            rates = {name: [] for name in makers}
            waits = {name: [] for name in makers}
            for _ in range(ROUNDS):
                # In turns, so that both meet the same machine.
                for name, make in makers.items():
                    rate, waited = flood(make)
                    rates[name].append(rate)
                    waits[name].append(waited)
            best = {}
            for name, make in makers.items():
                spans = sorted(echoes(make))
                best[name] = statistics.median(rates[name])
                topic.row(name, best[name], max(waits[name]), statistics.median(spans), spans[len(spans) * 99 // 100])
            if peer:
                topic.row("hotdesk / ttyd", best["hotdesk"] / best["ttyd"])
        finally:
            if peer:
                peer.terminate()
                peer.wait()
    topic.keep()


if __name__ == "__main__":
    main()
