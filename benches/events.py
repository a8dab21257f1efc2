#!/usr/bin/env python3
"""How soon is an event heard after its cause, and what does a thousand listeners cost?

usage: events.py HOTDESK_BINARY IMAGE_FOLDER

Causes are plain X requests and file writes, beside hotdesk; the clock runs from just before the cause until the
message has come. In a computer too they come from outside, by the X server's socket: a program in it would be timed along.
A controller and an agent of its own; everything is removed at the end.
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

from house import House
from kit import Agent, Topic, arguments

ROUNDS = 200
LISTENERS = 1000
# Far from each other, so that no cause is taken for part of the one before.
PAUSE = 0.02
# What the issue asks for: megabytes that a thousand idle sockets take.
IDLE_GOAL = 25


class Ear:
    """One client's socket, read all the time; what comes is stamped at once."""

    def __init__(self, socket, *kinds):
        self.socket, self.heard = socket, queue.Queue()
        socket.send(json.dumps({"type": "subscribe", "event_types": kinds}))
        while json.loads(socket.recv(30))["type"] != "subscribed":
            pass
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        try:
            for message in self.socket:
                self.heard.put((time.perf_counter(), json.loads(message)["event"]))
        except Exception as error:  # the end of the benchmark is the end of the socket
            self.heard.put((0, {"type": str(error), "data": {}}))

    def after(self, cause, fits):
        """Milliseconds from a cause to the event that fits it."""
        started = time.perf_counter()
        cause()
        while True:
            at, event = self.heard.get(timeout=30)
            if fits(event["data"]):
                return (at - started) * 1000


def spans(topic, what, ear, cause, fits, rounds=ROUNDS):
    taken = []
    for number in range(rounds + 5):
        time.sleep(PAUSE)
        taken.append(ear.after(lambda: cause(number), lambda data: fits(number, data)))
    row(topic, what, taken[5:])


def row(topic, what, taken):
    ordered = sorted(taken)
    topic.row(what, statistics.median(ordered), ordered[int(len(ordered) * 0.99) - 1], ordered[-1])


class Owner(threading.Thread):
    """Owns the clipboard anew with each text, and serves it."""

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
                asked = self.display.next_event()
            except ConnectionClosedError:  # the screen has ended
                return
            if asked.type != X.SelectionRequest:
                continue
            with self.lock:
                property = asked.property or asked.target
                if asked.target == self.targets:
                    asked.requestor.change_property(property, Xatom.ATOM, 32, [self.targets, self.utf8])
                elif asked.target == self.utf8:
                    asked.requestor.change_property(property, self.utf8, 8, self.text.encode())
                else:
                    property = X.NONE
                asked.requestor.send_event(xevent.SelectionNotify(
                    time=asked.time, requestor=asked.requestor, selection=asked.selection, target=asked.target,
                    property=property))
                self.display.flush()


class Windows:
    """Two windows that a window manager manages, and its list of them."""

    def __init__(self, name):
        self.display = xdisplay.Display(name)
        self.root = self.display.screen().root
        self.active = self.display.intern_atom("_NET_ACTIVE_WINDOW")
        # One that is mapped while the window manager starts may never be managed.
        self.wait_for(self.root, "_NET_SUPPORTING_WM_CHECK")
        time.sleep(1)
        self.both = [self.open(f"window {number}") for number in range(2)]
        for window in self.both:
            self.wait_for(window, "WM_STATE")

    def wait_for(self, window, property):
        until = time.time() + 30
        while not window.get_full_property(self.display.intern_atom(property), X.AnyPropertyType):
            if time.time() > until:
                raise SystemExit(f"no {property} came")
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


# Runs in the computer, whose clock is the host's: each file's name is when it was made.
FILES = f"""
import os, time
for number in range({ROUNDS}):
    time.sleep({PAUSE})
    open(os.path.expanduser(f"~/Desktop/file-{{time.perf_counter_ns()}}"), "w").close()
"""


def files_of_a_computer(topic, what, ear, api, computer):
    api("POST", f"/computers/{computer}/exec", {"code": FILES, "timeout": 60})
    taken = []
    while len(taken) < ROUNDS:
        at, event = ear.heard.get(timeout=30)
        if event["data"]["action"] == "created":
            taken.append((at - int(event["data"]["path"].rsplit("-", 1)[1]) / 1e9) * 1000)
    row(topic, what, taken)


def on_a_screen(topic, display, ear):
    windows, owner = Windows(display), Owner(display)
    spans(topic, "focus: _NET_ACTIVE_WINDOW asked of openbox", ear("window_focus"), windows.focus,
          lambda number, data: int(data["window_id"], 16) == windows.both[number % 2].id)
    spans(topic, "title of a window", ear("title_change"), windows.rename,
          lambda number, data: data["title"] == f"title {number}")
    spans(topic, "clipboard: its text, asked of its owner", ear("clipboard"), lambda number: owner.own(f"text {number}"),
          lambda number, data: data["content"] == f"text {number}")


def sizes_of_a_screen(topic, ear, resize):
    sizes = ((1280, 720), (1024, 768))
    spans(topic, "screen changed, from the request to change it", ear("screen_change"),
          lambda number: resize(dict(zip(("width", "height"), sizes[1 - number % 2]))),
          lambda number, data: (data["width"], data["height"]) == sizes[1 - number % 2], rounds=50)


@contextlib.contextmanager
def display_of(api, computer):
    """A display name by which this machine's programs reach the screen of a computer (runc's, whose files root sees)."""
    mark = f"/tmp/{uuid.uuid4()}"
    api("POST", f"/computers/{computer}/bash", {"command": f"touch {mark}"})
    own = api("GET", f"/computers/{computer}/screens")["screens"][0]["display"]
    socket = f"tmp/.X11-unix/X{own.lstrip(':')}"
    roots = (f"/proc/{pid}/root" for pid in os.listdir("/proc") if pid.isdigit())
    root = next(root for root in roots if os.path.exists(root + mark))
    os.makedirs("/tmp/.X11-unix", mode=0o1777, exist_ok=True)
    number = next(number for number in range(200, 1000) if not os.path.lexists(f"/tmp/.X11-unix/X{number}"))
    os.symlink(f"{root}/{socket}", f"/tmp/.X11-unix/X{number}")
    try:
        yield f":{number}"
    finally:
        os.unlink(f"/tmp/.X11-unix/X{number}")


def on_an_agent(binary):
    topic = Topic("from cause to event, on an agent (ms)", "p50", "p99", "worst")
    with Agent(binary, 1280, 720) as agent:
        agent.run("openbox")
        desktop = os.path.join(os.path.dirname(agent.log.name), "home", "Desktop")
        os.makedirs(desktop, exist_ok=True)

        stack = contextlib.ExitStack()

        def ear(*kinds):
            url = f"ws://agent/ws/events?token={agent.token}"
            return Ear(stack.enter_context(unix_connect(agent.socket, url, compression=None)), *kinds)

        on_a_screen(topic, agent.display, ear)
        sizes_of_a_screen(topic, ear, lambda size: agent.api("PATCH", "/screens/default", size))
        spans(topic, "file created on the desktop", ear("file_change"),
              lambda number: open(os.path.join(desktop, f"file-{number}"), "w").close(),
              lambda number, data: data["action"] == "created" and data["path"].endswith(f"/file-{number}"))
        stack.close()
    topic.keep()


def resident(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) / 1024


def through_the_controller(house):
    api = house.api
    workspace = api("POST", "/workspaces", {"name": "bench"})["id"]
    computer = api("POST", "/computers", {"workspace_id": workspace, "name": "one", "cpu": 2})["id"]
    password = api("GET", f"/computers/{computer}/vnc-password")["password"]
    url = f"ws://{house.host}:{house.port}/desktops/{computer}/ws/events?token={password}"

    def listen(stack):
        socket = stack.enter_context(connect(url, compression=None, ping_interval=None))
        socket.send('{"type": "subscribe", "event_types": ["file_change"]}')
        while json.loads(socket.recv(30))["type"] != "subscribed":
            pass

    topic = Topic("from cause to event, through the controller (ms)", "p50", "p99", "worst")
    with contextlib.ExitStack() as stack:
        def ear(*kinds):
            return Ear(stack.enter_context(connect(url, compression=None)), *kinds)

        def resize(size):
            api("PATCH", f"/computers/{computer}/screens/default", size)

        on_a_screen(topic, stack.enter_context(display_of(api, computer)), ear)
        sizes_of_a_screen(topic, ear, resize)
        files_of_a_computer(topic, "file created on the desktop of a computer", ear("file_change"), api, computer)
    topic.keep()

    memory = Topic("memory of the controller (MB, RSS)", "before", "with them", "growth")
    # What is taken once and kept is not the listeners'.
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            listen(stack)
    before = resident(house.server.pid)
    with contextlib.ExitStack() as stack:
        for _ in range(LISTENERS):
            listen(stack)
        time.sleep(2)
        after = resident(house.server.pid)
        what = f"{LISTENERS} subscribed sockets on which nothing happens"
        memory.row(what, before, after, after - before)
        memory.goal(what, after - before, most=IDLE_GOAL, unit="MB")
    memory.keep()


def main():
    binary, image = arguments("events.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    on_an_agent(binary)
    with House(binary, image) as house:
        through_the_controller(house)


if __name__ == "__main__":
    main()
