"""How do the benchmarks reach hotdesk? Clients of its two faces, and a controller that leaves nothing behind."""

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

# The rate limit of a key is for clients that share a service; a benchmark asks as fast as it is answered.
UNHURRIED = os.environ | {"HOTDESK_LIMITS__REQUESTS_PER_SECOND": "100000", "HOTDESK_LIMITS__REQUEST_BURST": "100000"}


# Seconds; the server waits for ten.
IDLE = 5


class Refused(SystemExit):
    """An answer that is no success; unless somebody expects it, the benchmark ends with it."""


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path):
        super().__init__("agent")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Api:
    """One kept connection with a bearer; one that was idle is opened anew, before the server closes it."""

    def __init__(self, connection, bearer, prefix=""):
        self.connection, self.prefix, self.used = connection, prefix, 0
        self.headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}

    def raw(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        if time.monotonic() - self.used > IDLE:
            self.connection.close()
        self.connection.request(method, self.prefix + path, text, self.headers)
        response = self.connection.getresponse()
        content = response.read()
        self.used = time.monotonic()
        if response.status >= 400:
            raise Refused(f"{method} {path}: {response.status} {content[:300].decode(errors='replace')}")
        return content

    def __call__(self, method, path, body=None):
        return json.loads(self.raw(method, path, body))


class House:
    """A controller with a data folder of its own, and more lines in its configuration; a `with` ends and removes it."""

    def __init__(self, binary, image, lines=""):
        self.binary, self.image, self.key = binary, image, None
        self.folder = tempfile.mkdtemp(prefix="hotdesk-bench-")
        self.data = f"{self.folder}/data"
        with open(f"{self.folder}/hotdesk.toml", "w") as file:
            file.write(lines)
        try:
            self.start()
        except Refused:
            self.remove()
            raise

    def start(self):
        """Starts the controller; returns once it listens."""
        with open(f"{self.folder}/log", "a") as log:
            self.server = subprocess.Popen(
                [self.binary, "serve", "--config", f"{self.folder}/hotdesk.toml", "--data-dir", self.data,
                 "--listen", "127.0.0.1:0", "--image", self.image],
                env=UNHURRIED, stdout=subprocess.PIPE, stderr=log, text=True)
        for line in self.server.stdout:
            if found := re.search(r"sk_live_\w+", line):
                self.key = found.group()
            if found := re.search(r"http://(.*):(\d+)", line):
                self.host, self.port = found.group(1), int(found.group(2))
                self.api = self.connect()
                return
        with open(f"{self.folder}/log") as said:
            raise Refused((said.read().strip().splitlines() or ["it said nothing"])[-1][:100])

    def connect(self):
        """A client with a connection of its own."""
        return Api(http.client.HTTPConnection(self.host, self.port, timeout=300), self.key, "/api")

    def stored(self, computer):
        """A computer's agent token and password: benchmarks reach its agent past the controller."""
        store = sqlite3.connect(f"file:{self.data}/hotdesk.db?mode=ro", uri=True)
        return store.execute("SELECT agent_token, vnc_password FROM computers WHERE id = ?", [computer]).fetchone()

    def socket(self, computer):
        return f"{self.data}/machines/{computer}/agent.sock"

    def agent(self, computer):
        """A client of a computer's agent itself."""
        return Api(UnixConnection(self.socket(computer)), self.stored(computer)[0])

    def remove(self):
        subprocess.run([self.binary, "purge", "--yes", "--data-dir", self.data, "--image", "/nowhere"], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", self.folder], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(60)
        self.remove()
