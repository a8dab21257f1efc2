#!/usr/bin/env python3
"""Latency from a cause to its event, and the memory of a thousand event sockets.

usage: events.py HOTDESK_BINARY IMAGE_FOLDER

Causes are plain X requests and file writes outside of hotdesk. The clock runs from just before the cause until the client
has the message. In a computer the X requests also come from outside, through the X server's socket: a program inside
would add its own start to the time. The script boots its own controller and agent, and removes everything at the end.
"""

import contextlib
import json
import os
import queue
import resource
import statistics
import threading
import time
import uuid

from websockets.sync.client import connect, unix_connect
from Xlib import X, Xatom, display as xdisplay
from Xlib.error import ConnectionClosedError
from Xlib.protocol import event as xevent

from controller import Controller
from support import Agent, Table, arguments

ROUNDS = 200
LISTENERS = 1000
# Long enough that no event can belong to the cause before.
PAUSE = 0.02
# Goal: megabytes of memory for a thousand idle sockets.
IDLE_GOAL = 25


class EventClient:
    """The event socket of one client. A thread reads it all the time and stamps each event."""

    def __init__(self, socket, *kinds):
        self.socket, self.events = socket, queue.Queue()
        socket.send(json.dumps({"type": "subscribe", "event_types": kinds}))
        while json.loads(socket.recv(30))["type"] != "subscribed":
            pass
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        try:
            for message in self.socket:
                self.events.put((time.perf_counter(), json.loads(message)["event"]))
        except Exception as error:  # the socket ends with the benchmark
            self.events.put((0, {"type": str(error), "data": {}}))

    def latency(self, cause, matches):
        """Milliseconds from a cause to the event that matches it."""
        started = time.perf_counter()
        cause()
        while True:
            at, event = self.events.get(timeout=30)
            if matches(event["data"]):
                return (at - started) * 1000


def measure(table, label, client, cause, matches, rounds=ROUNDS):
    latencies = []
    for number in range(rounds + 5):
        time.sleep(PAUSE)
        latencies.append(client.latency(lambda: cause(number), lambda data: matches(number, data)))
    add_row(table, label, latencies[5:])


def add_row(table, label, latencies):
    ordered = sorted(latencies)
    table.row(label, statistics.median(ordered), ordered[int(len(ordered) * 0.99) - 1], ordered[-1])


class ClipboardOwner(threading.Thread):
    """Takes ownership of the clipboard for each text, and serves the text."""

    def __init__(self, name):
        super().__init__(daemon=True)
        self.display, self.lock, self.text = xdisplay.Display(name), threading.Lock(), ""
        self.window = self.display.screen().root.create_window(0, 0, 1, 1, 0, X.CopyFromParent)
        self.clipboard = self.display.intern_atom("CLIPBOARD")
        self.utf8, self.targets = self.display.intern_atom("UTF8_STRING"), self.display.intern_atom("TARGETS")
        self.display.sync()
        self.start()

    def own(self, text):
        with self.lock:
            self.text = text
            self.window.set_selection_owner(self.clipboard, X.CurrentTime)
            self.display.flush()

    def run(self):
        while True:
            try:
                request = self.display.next_event()
            except ConnectionClosedError:  # the screen has ended
                return
            if request.type != X.SelectionRequest:
                continue
            with self.lock:
                property = request.property or request.target
                if request.target == self.targets:
                    request.requestor.change_property(property, Xatom.ATOM, 32, [self.targets, self.utf8])
                elif request.target == self.utf8:
                    request.requestor.change_property(property, self.utf8, 8, self.text.encode())
                else:
                    property = X.NONE
                request.requestor.send_event(xevent.SelectionNotify(
                    time=request.time, requestor=request.requestor, selection=request.selection, target=request.target,
                    property=property))
                self.display.flush()


class Windows:
    """Two windows under a window manager, and the window manager's list of windows."""

    def __init__(self, name):
        self.display = xdisplay.Display(name)
        self.root = self.display.screen().root
        self.active = self.display.intern_atom("_NET_ACTIVE_WINDOW")
        # A window that is mapped during the start of the window manager may never be managed.
        self.wait_for(self.root, "_NET_SUPPORTING_WM_CHECK")
        time.sleep(1)
        self.both = [self.open(f"window {number}") for number in range(2)]
        for window in self.both:
            self.wait_for(window, "WM_STATE")

    def wait_for(self, window, property):
        until = time.time() + 30
        while not window.get_full_property(self.display.intern_atom(property), X.AnyPropertyType):
            if time.time() > until:
                raise SystemExit(f"timeout: property {property} not set")
            time.sleep(0.05)

    def open(self, title):
        window = self.root.create_window(0, 0, 100, 100, 0, X.CopyFromParent)
        window.set_wm_name(title)
        window.map()
        self.display.sync()
        return window

    def focus(self, number):
        message = xevent.ClientMessage(window=self.both[number % 2], client_type=self.active,
                                       data=(32, [2, X.CurrentTime, 0, 0, 0]))
        self.root.send_event(message, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
        self.display.flush()

    def rename(self, number):
        self.both[0].set_wm_name(f"title {number}")
        self.display.flush()


# Runs in the computer, which shares the host's clock: the name of each file holds the time of its creation.
FILES = f"""
import os, time
for number in range({ROUNDS}):
    time.sleep({PAUSE})
    open(os.path.expanduser(f"~/Desktop/file-{{time.perf_counter_ns()}}"), "w").close()
"""


def measure_computer_files(table, label, client, api, computer):
    api("POST", f"/computers/{computer}/exec", {"code": FILES, "timeout": 60})
    latencies = []
    while len(latencies) < ROUNDS:
        at, event = client.events.get(timeout=30)
        if event["data"]["action"] == "created":
            latencies.append((at - int(event["data"]["path"].rsplit("-", 1)[1]) / 1e9) * 1000)
    add_row(table, label, latencies)


def measure_screen(table, display, client):
    windows, clipboard_owner = Windows(display), ClipboardOwner(display)
    measure(table, "focus: _NET_ACTIVE_WINDOW request to openbox", client("window_focus"), windows.focus,
          lambda number, data: int(data["window_id"], 16) == windows.both[number % 2].id)
    measure(table, "window title", client("title_change"), windows.rename,
          lambda number, data: data["title"] == f"title {number}")
    measure(table, "clipboard: text from its clipboard_owner", client("clipboard"), lambda number: clipboard_owner.own(f"text {number}"),
          lambda number, data: data["content"] == f"text {number}")


def measure_screen_sizes(table, client, resize):
    sizes = ((1280, 720), (1024, 768))
    measure(table, "screen size, from the request", client("screen_change"),
          lambda number: resize(dict(zip(("width", "height"), sizes[1 - number % 2]))),
          lambda number, data: (data["width"], data["height"]) == sizes[1 - number % 2], rounds=50)


@contextlib.contextmanager
def display_of(api, computer):
    """A display name on this host for the screen of a computer. Works with runc, whose files root can reach."""
    marker = f"/tmp/{uuid.uuid4()}"
    api("POST", f"/computers/{computer}/bash", {"command": f"touch {marker}"})
    own = api("GET", f"/computers/{computer}/screens")["screens"][0]["display"]
    socket = f"tmp/.X11-unix/X{own.lstrip(':')}"
    roots = (f"/proc/{pid}/root" for pid in os.listdir("/proc") if pid.isdigit())
    root = next(root for root in roots if os.path.exists(root + marker))
    os.makedirs("/tmp/.X11-unix", mode=0o1777, exist_ok=True)
    number = next(number for number in range(200, 1000) if not os.path.lexists(f"/tmp/.X11-unix/X{number}"))
    os.symlink(f"{root}/{socket}", f"/tmp/.X11-unix/X{number}")
    try:
        yield f":{number}"
    finally:
        os.unlink(f"/tmp/.X11-unix/X{number}")


def measure_agent(binary):
    table = Table("event latency, agent (ms)", "p50", "p99", "worst")
    with Agent(binary, 1280, 720) as agent:
        agent.run("openbox")
        desktop = os.path.join(os.path.dirname(agent.log.name), "home", "Desktop")
        os.makedirs(desktop, exist_ok=True)

        stack = contextlib.ExitStack()

        def client(*kinds):
            url = f"ws://agent/ws/events?token={agent.token}"
            return EventClient(stack.enter_context(unix_connect(agent.socket, url, compression=None)), *kinds)

        measure_screen(table, agent.display, client)
        measure_screen_sizes(table, client, lambda size: agent.api("PATCH", "/screens/default", size))
        measure(table, "file created on the desktop", client("file_change"),
              lambda number: open(os.path.join(desktop, f"file-{number}"), "w").close(),
              lambda number, data: data["action"] == "created" and data["path"].endswith(f"/file-{number}"))
        stack.close()
    table.save()


def resident(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) / 1024


def measure_controller(controller):
    api = controller.api
    workspace = api("POST", "/workspaces", {"name": "bench"})["id"]
    computer = api("POST", "/computers", {"workspace_id": workspace, "name": "one", "cpu": 2})["id"]
    password = api("GET", f"/computers/{computer}/vnc-password")["password"]
    url = f"ws://{controller.host}:{controller.port}/desktops/{computer}/ws/events?token={password}"

    def listen(stack):
        socket = stack.enter_context(connect(url, compression=None, ping_interval=None))
        socket.send('{"type": "subscribe", "event_types": ["file_change"]}')
        while json.loads(socket.recv(30))["type"] != "subscribed":
            pass

    table = Table("event latency, controller (ms)", "p50", "p99", "worst")
    with contextlib.ExitStack() as stack:
        def client(*kinds):
            return EventClient(stack.enter_context(connect(url, compression=None)), *kinds)

        def resize(size):
            api("PATCH", f"/computers/{computer}/screens/default", size)

        measure_screen(table, stack.enter_context(display_of(api, computer)), client)
        measure_screen_sizes(table, client, resize)
        measure_computer_files(table, "file created on the desktop of a computer", client("file_change"), api, computer)
    table.save()

    memory = Table("memory of the controller (MB, RSS)", "before", "with sockets", "growth")
    # The first sockets fill caches and pools of the process; the second batch alone is measured.
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            listen(stack)
    before = resident(controller.server.pid)
    with contextlib.ExitStack() as stack:
        for _ in range(LISTENERS):
            listen(stack)
        time.sleep(2)
        after = resident(controller.server.pid)
        label = f"{LISTENERS} idle subscribed sockets"
        memory.row(label, before, after, after - before)
        memory.goal(label, after - before, most=IDLE_GOAL, unit="MB")
    memory.save()


def main():
    binary, image = arguments("events.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    measure_agent(binary)
    with Controller(binary, image) as controller:
        measure_controller(controller)


if __name__ == "__main__":
    main()
