#!/usr/bin/env python3
"""VNC updates a second of a moving window: at Xvnc, through the agent and through the controller.

usage: vnc.py HOTDESK_BINARY IMAGE_FOLDER

A client requests the next update as soon as it has one, like viewers. Xvnc sends at most 60 a second.
"""

import glob
import re
import socket
import struct
import time

from websockets.sync.client import connect, unix_connect

from controller import Controller
from support import QUICK, Table, arguments

SECONDS = 1 if QUICK else 5
RAW, ZRLE = 0, 16
# xterm moves its window on an escape sequence, so a shell is enough: 100 steps a second.
MOVING = ("x=0; while :; do x=$(((x + 7) % 700)); printf '\\033[3;%d;%dt' $x $((x / 3)); sleep 0.01; done")


class UnixStream:
    """A unix stream socket with the methods of a WebSocket client."""

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
    """An RFB client that only counts updates and bytes."""

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
            # A bell has no body; a clipboard message has a text.
            if kind == 3:
                self.take(struct.unpack(">3xI", self.take(7))[0])
        for _ in range(struct.unpack(">xH", self.take(3))[0]):
            _, _, width, height, encoding = struct.unpack(">HHHHi", self.take(12))
            self.take(struct.unpack(">I", self.take(4))[0] if encoding == ZRLE else 4 * width * height)


def measure(table, what, opened, encoding):
    with opened as link:
        view(table, what, link, encoding)


def view(table, what, link, encoding):
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
    table.row(what, rate, gaps[len(gaps) // 2] * 1000, gaps[len(gaps) * 99 // 100] * 1000,
              viewer.bytes / (last - began) / 1e6)


def main():
    binary, image = arguments("vnc.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    with Controller(binary, image) as controller:
        api = controller.api
        workspace = api("POST", "/workspaces", {"name": "bench"})["id"]
        computer = api("POST", "/computers", {"workspace_id": workspace, "name": "one", "cpu": 2})["id"]
        api("POST", f"/computers/{computer}/launch",
            {"argv": ["xterm", "-xrm", "XTerm*allowWindowOps: true", "-geometry", "80x24", "-e", "sh", "-c", MOVING],
             "wait_seconds": 10})
        time.sleep(1)
        token, password = controller.credentials(computer)
        with open(f"{controller.data}/runtime/{computer}/state.json") as file:
            pid = re.search(r'"init_process_pid":\s*(\d+)', file.read()).group(1)
        direct = glob.glob(f"/proc/{pid}/root/run/**/vnc-*.sock", recursive=True)[0]
        table = Table("VNC, a moving window at 1280x720", "updates/s", "p50 ms", "p99 ms", "MB/s")
        for name, encoding in (("ZRLE", ZRLE), ("raw", RAW)):
            measure(table, f"{name}, Xvnc's socket", UnixStream(direct), encoding)
            measure(table, f"{name}, agent", unix_connect(
                controller.socket(computer), "ws://localhost/ws/websockify", max_size=None,
                compression=None, additional_headers={"Authorization": f"Bearer {token}"}), encoding)
            measure(table, f"{name}, controller", connect(
                f"ws://{controller.host}:{controller.port}/desktops/{computer}/ws/websockify?token={password}", max_size=None,
                compression=None), encoding)
            ticket = api("POST", f"/computers/{computer}/stream-tickets", {"mode": "view"})
            measure(table, f"{name}, controller, view only", connect(
                ticket["ws_url"], max_size=None, compression=None), encoding)
        table.save()


if __name__ == "__main__":
    main()
