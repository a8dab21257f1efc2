"""Shared parts of the benchmarks: agents, screen content, clocks, tables and the file of results."""

import atexit
import json
import math
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from Xlib import X, display as xdisplay

from controller import Api, UnixConnection

CACHE = os.environ.get("HOTDESK_CACHE", "/var/cache/hotdesk")
RESULTS = os.path.join(CACHE, "bench")
SECONDS = 30
# `make bench QUICK=1`: a twentieth of the rounds, to check that the scripts work. Its figures are not valid.
QUICK = os.environ.get("QUICK") == "1"
# python-xlib, which pyautogui uses, requires a cookie file; these screens need no cookie.
os.environ["XAUTHORITY"] = tempfile.NamedTemporaryFile(prefix="hotdesk-bench-xauth-", delete=False).name
atexit.register(os.unlink, os.environ["XAUTHORITY"])


class Agent:
    """An agent on this machine with its own X server and no window manager; the end of a `with` removes it."""

    def __init__(self, binary, width, height, session="none"):
        self.folder = tempfile.mkdtemp(prefix="hotdesk-bench-")
        self.number = next(n for n in random.sample(range(3000, 9000), 100)
                           if not os.path.exists(f"/tmp/.X11-unix/X{n}") and not os.path.exists(f"/tmp/.X{n}-lock"))
        self.display = f":{self.number}"
        socket = os.path.join(self.folder, "agent.sock")
        os.mkdir(os.path.join(self.folder, "home"))
        self.log = open(os.path.join(self.folder, "log"), "w")
        self.process = subprocess.Popen(
            [binary, "agent", "--listen", f"unix:{socket}", "--display", f"own:{self.number}", "--session", session,
             "--resolution", f"{width}x{height}x24", "--runtime-dir", f"{self.folder}/run", "--home",
             f"{self.folder}/home", "--session-dir", f"{self.folder}/session"],
            stdout=self.log, stderr=self.log)
        self.socket, self.programs = socket, []
        self.wait_for(lambda: os.path.exists(socket), "agent socket")
        with open(f"{self.folder}/run/token") as file:
            self.token = file.read().strip()
        self.api = self.connect()
        self.wait_for(self.is_up, "screen")

    def connect(self):
        return Api(UnixConnection(self.socket), self.token)

    def raw_client(self):
        return RawClient(self.socket, self.token)

    def is_up(self):
        try:
            return self.connect().raw("GET", "/screenshot?response_format=binary")
        except (SystemExit, OSError):
            return None

    def wait_for(self, ready, label):
        until = time.time() + SECONDS
        while not ready():
            if time.time() > until or self.process.poll() is not None:
                with open(self.log.name) as log:
                    raise SystemExit(f"timeout: no {label}: {log.read()[-2000:]}")
            time.sleep(0.02)

    def run(self, *command, **options):
        """Starts a program on the screen; it ends with the agent."""
        environment = {**os.environ, "DISPLAY": self.display, "LC_ALL": "C.UTF-8"}
        self.programs.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, **options))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.programs:
            program.terminate()
            program.wait()
        self.process.terminate()
        self.process.wait()
        self.log.close()
        subprocess.run(["rm", "-rf", self.folder], check=True)


class RawClient:
    """A client of minimal cost: prepared bytes on a socket. What remains is the agent's time and the copying."""

    def __init__(self, path, token):
        self.token, self.sock = token, socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.buffer = bytearray(32 << 20)
        self.view = memoryview(self.buffer)

    def prepare(self, method, path, body=None, fields=""):
        """A function that sends one request, reads its response, and returns the status and the size of the body."""
        text = b"" if body is None else json.dumps(body).encode()
        request = (f"{method} {path} HTTP/1.1\r\nHost: agent\r\nAuthorization: Bearer {self.token}\r\n{fields}"
                   f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n").encode() + text
        sock, buffer, view = self.sock, self.buffer, self.view

        def work():
            sock.sendall(request)
            have, end = 0, -1
            while end < 0:
                have += receive(sock, view[have:])
                end = buffer.find(b"\r\n\r\n", 0, have)
            head = bytes(view[:end]).lower()
            at = head.find(b"\ncontent-length:")
            size = int(head[at + 16:].split(b"\r", 1)[0]) if at >= 0 else 0
            while have < end + 4 + size:
                have += receive(sock, view[have:])
            return int(head[9:12]), size

        status, _ = work()
        if status >= 400:
            raise SystemExit(f"{method} {path}: {bytes(view[:600])!r}")
        return work


def receive(sock, view):
    count = sock.recv_into(view)
    if not count:
        raise SystemExit("the agent closed the connection")
    return count


class Painter:
    """Paints on a screen with plain X requests: a full picture, and a mark that changes the screen."""

    def __init__(self, name):
        self.display = xdisplay.Display(name)
        screen = self.display.screen()
        self.root, self.depth = screen.root, screen.root_depth
        self.width, self.height = screen.width_in_pixels, screen.height_in_pixels
        self.window = self.gc = None
        self.mark = self.open(0, 0, 8, 8)
        self.mark_gc = self.mark.create_gc()
        self.colour = 0

    def open(self, x, y, width, height):
        window = self.root.create_window(x, y, width, height, 0, self.depth, override_redirect=1, background_pixel=0)
        window.map()
        self.display.sync()
        return window

    def nudge(self):
        self.colour += 1
        self.mark_gc.change(foreground=self.colour)
        self.mark.fill_rectangle(self.mark_gc, 0, 0, 8, 8)
        self.display.sync()

    def photo(self):
        """Paints smooth shapes with a little noise on each pixel, like a camera picture."""
        self.window = self.open(0, 0, self.width, self.height)
        gc = self.window.create_gc()
        chance = random.Random(7)
        rows = 32
        for top in range(0, self.height, rows):
            data = bytearray()
            count = min(rows, self.height - top)
            for y in range(top, top + count):
                noise = chance.randbytes(self.width)
                down = 60 * math.sin(y / 97)
                for x in range(self.width):
                    base = 128 + down + 50 * math.sin((x + y) / 143)
                    value = int(base) + (noise[x] & 15) - 8
                    data += bytes((value, min(255, value + 20), max(0, value - 15 + (noise[x] >> 5)), 0))
            self.window.put_image(gc, 0, top, self.width, count, X.ZPixmap, self.depth, 0, bytes(data))
        self.mark.configure(stack_mode=X.Above)
        self.display.sync()


def fill_with_text(agent, width, height):
    """Fills the screen with terminals of coloured text."""
    page = ("for i in $(seq 80); do printf '\\033[3%dm%s\\033[0m ' $((i % 8)) \"$(head -c 90 /dev/urandom | base64 -w0)\";"
            " done; exec sleep 1000")
    for x in (0, width // 2):
        for y in (0, height // 2):
            # A character of the fixed font has 6 by 13 pixels.
            size = f"{width // 12}x{height // 26}+{x}+{y}"
            agent.run("xterm", "-geometry", size, "-e", "sh", "-c", page)
    time.sleep(3)


def scaled(rounds):
    """The number of rounds, or a twentieth of it with QUICK."""
    return max(3, rounds // 20) if QUICK else rounds


def timed(work, rounds, before=None):
    """Milliseconds of each round, without the time of `before`."""
    durations = []
    for _ in range(rounds):
        if before:
            before()
        started = time.perf_counter()
        work()
        durations.append((time.perf_counter() - started) * 1000)
    return durations


class Table:
    """A table that is printed row by row and saved in the folder of results."""

    def __init__(self, name, *columns):
        self.name, self.columns, self.rows, self.goals = name, columns, [], []
        print(f"\n{name}\n  {'':<62}" + "".join(f"{column:>12}" for column in columns), flush=True)

    def row(self, label, *figures):
        def shown(figure):
            if figure is None:
                return "-"
            return f"{figure:.2f}" if isinstance(figure, float) else str(figure)
        self.rows.append({"label": label, **dict(zip(self.columns, figures))})
        print(f"  {label:<62}" + "".join(f"{shown(figure):>12}" for figure in figures), flush=True)

    def durations(self, label, durations, *more):
        """Adds a row with a median and more figures; returns the median."""
        middle = statistics.median(durations)
        self.row(label, middle, *more)
        return middle

    def skip(self, label, why):
        self.rows.append({"label": label, "skipped": why})
        print(f"  {label:<62}  skipped: {why}", flush=True)

    def goal(self, label, figure, most=None, least=None, unit="ms"):
        """Adds a goal: the figure must be at `most` or at `least` this value."""
        limit, met = (most, figure <= most) if least is None else (least, figure >= least)
        wanted = f"at {'most' if least is None else 'least'} {limit:g} {unit}"
        verdict = "met" if met else f"missed by {abs(figure - limit) / limit:.0%}"
        self.goals.append({"label": label, "wanted": wanted, "figure": figure, "unit": unit, "verdict": verdict})
        print(goal_line(self.goals[-1]), flush=True)

    def save(self):
        os.makedirs(RESULTS, exist_ok=True)
        name = "-".join(self.name.split("(")[0].lower().split())
        with open(os.path.join(RESULTS, f"{name}.json"), "w") as file:
            json.dump({"table": self.name, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                       "cores": os.cpu_count(), "quick": QUICK, "rows": self.rows, "goals": self.goals}, file, indent=1)


def goal_line(goal):
    figure = f"{goal['figure']:.2f} {goal['unit']}"
    return f"  goal: {goal['label']:<56} {goal['wanted']:<30} {figure:<24} {goal['verdict']}"


def peer_library(binary, display, *command):
    """The measurements of a Rust library in its own process (benches/peers): one dictionary each."""
    ran = subprocess.run([binary, *map(str, command)], check=True, env={**os.environ, "DISPLAY": display},
                         stdout=subprocess.PIPE, text=True, timeout=600)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def time_tool(display, command, rounds, output=None, before=None, table=None, label=None):
    """Milliseconds of each run of a tool, in a new process each time as people use it; and the size of its output file."""
    environment = {**os.environ, "DISPLAY": display}

    def once():
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    try:
        once()
        durations = timed(once, rounds, before)
    except (OSError, subprocess.CalledProcessError) as error:
        if table:
            table.skip(label, str(error)[:50])
        return None, None
    return durations, (os.path.getsize(output) if output else None)


def arguments(usage, count):
    if len(sys.argv) != count + 1:
        raise SystemExit(f"usage: {usage}")
    return sys.argv[1:]
