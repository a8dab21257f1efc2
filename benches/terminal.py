#!/usr/bin/env python3
"""Throughput and latency of a terminal: the same output through hotdesk's terminal and through ttyd's.

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

from support import CACHE, SECONDS, Agent, Table, arguments

ROUNDS = 5
NUMBERS = 6_500_000
# The quotes split the marks, so that the echo of this line does not contain them.
COMMAND = f"clear; echo be''gin; seq {NUMBERS}; echo en''d\r"
ECHOES = 300
TTYD = os.path.join(CACHE, "ttyd")
PLUGIN = "libwebsockets-evlib_uv.so"
# No compression at either end, and no limit of the message size.
PLAIN = {"compression": None, "max_size": None}


class Hotdesk:
    """The agent's terminal protocol: JSON in text frames."""

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
    """ttyd's protocol: a type byte and the characters, in binary frames."""

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
        # A frame may split a multi-byte character; this output has none.
        return message[1:].decode(errors="replace") if message[:1] == b"0" else ""


def read_until(terminal, mark):
    """Reads up to a mark; returns the number of characters."""
    count, tail = 0, ""
    while True:
        text = terminal.read()
        count += len(text)
        tail = tail[-len(mark):] + text
        if mark in tail:
            return count


def measure_flood(open_terminal):
    """Megabytes a second of one flood of output, and the milliseconds from Ctrl+C to the next command's output."""
    with open_terminal() as terminal:
        terminal.type(COMMAND)
        read_until(terminal, "begin\r\n")
        started = time.perf_counter()
        count = read_until(terminal, "end\r\n")
        rate = count / (time.perf_counter() - started) / 1e6
        terminal.type("yes\r")
        stop = time.perf_counter() + 1
        while time.perf_counter() < stop:
            terminal.read()
        started = time.perf_counter()
        terminal.type("\x03")
        terminal.type("echo af''ter\r")
        read_until(terminal, "after\r\n")
        return rate, (time.perf_counter() - started) * 1000


def measure_echo(open_terminal):
    """Milliseconds from each key to its echo."""
    with open_terminal() as terminal:
        terminal.type("stty -icanon; echo u''p; cat >/dev/null\r")
        read_until(terminal, "up\r\n")
        # stty has finished when cat reads.
        time.sleep(0.5)
        durations = []
        for _ in range(ECHOES):
            started = time.perf_counter()
            terminal.type("x")
            read_until(terminal, "x")
            durations.append((time.perf_counter() - started) * 1000)
        return durations


def serve_ttyd(folder):
    """Starts ttyd on a free port with the libraries of its own Debian release. Returns the process and the port."""
    library = os.path.join(TTYD, "usr/lib/x86_64-linux-gnu")
    # ttyd looks for its event loop plug-in here. The folder holds nothing else that the shell, which inherits the variable, could load.
    os.symlink(os.path.join(library, PLUGIN), os.path.join(folder, PLUGIN))
    port = random.randint(20000, 30000)
    process = subprocess.Popen(
        [os.path.join(library, "ld-linux-x86-64.so.2"), "--library-path", library, os.path.join(TTYD, "usr/bin/ttyd"),
         "-W", "-i", "127.0.0.1", "-p", str(port), "/bin/bash", "--login"],
        env=os.environ | {"LD_LIBRARY_PATH": folder}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.time() + SECONDS
    while process.poll() is None and time.time() < deadline:
        try:
            with Ttyd(port):
                return process, port
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise SystemExit("timeout: ttyd does not listen")


def main():
    [binary] = arguments("terminal.py HOTDESK_BINARY", 1)
    table = Table("terminal", "MB/s", "ctrl+c ms", "echo ms", "p99 ms")
    peer = None
    with Agent(binary, 800, 600) as agent, tempfile.TemporaryDirectory() as folder:
        makers = {"hotdesk": lambda: Hotdesk(agent)}
        if os.path.exists(os.path.join(TTYD, "usr/bin/ttyd")):
            peer, port = serve_ttyd(folder)
            makers["ttyd"] = lambda: Ttyd(port)
        else:
            table.skip("ttyd", "not installed (make deps-bench)")
        try:
            rates = {name: [] for name in makers}
            waits = {name: [] for name in makers}
            for _ in range(ROUNDS):
                # In turns, so that both run under the same load.
                for name, open_terminal in makers.items():
                    rate, waited = measure_flood(open_terminal)
                    rates[name].append(rate)
                    waits[name].append(waited)
            best = {}
            for name, open_terminal in makers.items():
                durations = sorted(measure_echo(open_terminal))
                best[name] = statistics.median(rates[name])
                table.row(name, best[name], max(waits[name]), statistics.median(durations), durations[len(durations) * 99 // 100])
            if peer:
                table.row("hotdesk / ttyd", best["hotdesk"] / best["ttyd"])
        finally:
            if peer:
                peer.terminate()
                peer.wait()
    table.save()


if __name__ == "__main__":
    main()
