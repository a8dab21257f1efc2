#!/usr/bin/env python3
"""How many VNC updates a second does a moving window give, at Xvnc itself, through the agent and through the controller?

usage: vnc.py HOTDESK_BINARY IMAGE_FOLDER

A client asks for the next update as soon as it has one, as viewers do. Xvnc gives at most 60 a second.
"""

import glob
import re
import socket
import struct
import time

from websockets.sync.client import connect, unix_connect

from house import House
from kit import QUICK, Topic, arguments

SECONDS = 1 if QUICK else 5
RAW, ZRLE = 0, 16
# xterm moves by an escape sequence, so that nothing but a shell is needed: 100 steps a second.
MOVING = ("x=0; while :; do x=$(((x + 7) % 700)); printf '\\033[3;%d;%dt' $x $((x / 3)); sleep 0.01; done")


class Plain:
    """RFB on a stream socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)

    def send(self, data):
        self.socket.sendall(data)

    def recv(self):
        return self.socket.recv(65536)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


class Viewer:
    """Just enough RFB to count what comes."""

    def __init__(self, link, encoding):
        self.link, self.bytes, self.have = link, 0, bytearray()
        self.take(12)
        link.send(b"RFB 003.008\n")
        self.take(self.take(1)[0])
        link.send(b"\x01")
        self.take(4)
        link.send(b"\x01")
        self.width, self.height = struct.unpack(">HH", self.take(4))
        self.take(struct.unpack(">16xI", self.take(20))[0])
        link.send(struct.pack(">BxHi", 2, 1, encoding))

    def take(self, count):
        while len(self.have) < count:
            more = self.link.recv()
            if not more:
                raise SystemExit("the server ended")
            self.bytes += len(more)
            self.have += more
        taken = bytes(self.have[:count])
        del self.have[:count]
        return taken

    def update(self, incremental):
        self.link.send(struct.pack(">BBHHHH", 3, incremental, 0, 0, self.width, self.height))
        while (kind := self.take(1)[0]) != 0:
            # A bell has no body; the clipboard's text has.
            if kind == 3:
                self.take(struct.unpack(">3xI", self.take(7))[0])
        for _ in range(struct.unpack(">xH", self.take(3))[0]):
            _, _, width, height, encoding = struct.unpack(">HHHHi", self.take(12))
            self.take(struct.unpack(">I", self.take(4))[0] if encoding == ZRLE else 4 * width * height)


def measure(topic, what, opened, encoding):
    with opened as link:
        follow(topic, what, link, encoding)


def follow(topic, what, link, encoding):
    viewer = Viewer(link, encoding)
    viewer.update(0)
    viewer.bytes, gaps = 0, []
    began = last = time.perf_counter()
    while last - began < SECONDS:
        viewer.update(1)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
    gaps.sort()
    rate = len(gaps) / (last - began)
    topic.row(what, rate, gaps[len(gaps) // 2] * 1000, gaps[len(gaps) * 99 // 100] * 1000,
              viewer.bytes / (last - began) / 1e6)


def main():
    binary, image = arguments("vnc.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    with House(binary, image) as house:
        api = house.api
        workspace = api("POST", "/workspaces", {"name": "bench"})["id"]
        computer = api("POST", "/computers", {"workspace_id": workspace, "name": "one", "cpu": 2})["id"]
        api("POST", f"/computers/{computer}/launch",
            {"argv": ["xterm", "-xrm", "XTerm*allowWindowOps: true", "-geometry", "80x24", "-e", "sh", "-c", MOVING],
             "wait_seconds": 10})
        time.sleep(1)
        token, password = house.stored(computer)
        with open(f"{house.data}/runtime/{computer}/state.json") as file:
            pid = re.search(r'"init_process_pid":\s*(\d+)', file.read()).group(1)
        direct = glob.glob(f"/proc/{pid}/root/run/**/vnc-*.sock", recursive=True)[0]
        topic = Topic("VNC, a moving window at 1280x720", "updates/s", "p50 ms", "p99 ms", "MB/s")
        for name, encoding in (("ZRLE", ZRLE), ("raw", RAW)):
            measure(topic, f"{name}, Xvnc's own socket", Plain(direct), encoding)
            measure(topic, f"{name}, agent", unix_connect(
                house.socket(computer), "ws://localhost/ws/websockify", max_size=None,
                compression=None, additional_headers={"Authorization": f"Bearer {token}"}), encoding)
            measure(topic, f"{name}, controller", connect(
                f"ws://{house.host}:{house.port}/desktops/{computer}/ws/websockify?token={password}", max_size=None,
                compression=None), encoding)
            ticket = api("POST", f"/computers/{computer}/stream-tickets", {"mode": "view"})
            measure(topic, f"{name}, controller, view only", connect(
                ticket["ws_url"], max_size=None, compression=None), encoding)
        topic.keep()


if __name__ == "__main__":
    main()
