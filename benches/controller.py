"""Clients of hotdesk's two APIs, and a controller in a temporary folder, for the benchmarks."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

# A benchmark sends requests as fast as it gets responses; the rate limit per key would stop it.
NO_RATE_LIMIT = os.environ | {"HOTDESK_LIMITS__REQUESTS_PER_SECOND": "100000", "HOTDESK_LIMITS__REQUEST_BURST": "100000"}


# Configuration of a controller whose computers are containers over runc.
RUNC = '[engines]\noffered = "shared"\n'
# Seconds until a client drops an idle connection; the server closes it after ten.
IDLE = 5


class RequestFailed(SystemExit):
    """A response with an error status. It ends the benchmark, unless the caller catches it."""


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path):
        super().__init__("agent")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Api:
    """A persistent connection with a bearer token. It reconnects after an idle time, before the server closes it."""

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
            raise RequestFailed(f"{method} {path}: {response.status} {content[:300].decode(errors='replace')}")
        return content

    def __call__(self, method, path, body=None):
        return json.loads(self.raw(method, path, body))


class Controller:
    """A controller with a data folder of its own and `lines` of configuration; the end of the `with` removes it."""

    def __init__(self, binary, image, lines=RUNC):
        self.binary, self.image, self.key = binary, image, None
        self.folder = tempfile.mkdtemp(prefix="hotdesk-bench-")
        self.data = f"{self.folder}/data"
        with open(f"{self.folder}/hotdesk.toml", "w") as file:
            file.write(lines)
        try:
            self.start()
        except RequestFailed:
            self.remove()
            raise

    def start(self):
        """Starts the controller and waits until it listens."""
        with open(f"{self.folder}/log", "a") as log:
            self.server = subprocess.Popen(
                [self.binary, "serve", "--config", f"{self.folder}/hotdesk.toml", "--data-dir", self.data,
                 "--listen", "127.0.0.1:0", "--image", self.image],
                env=NO_RATE_LIMIT, stdout=subprocess.PIPE, stderr=log, text=True)
        for line in self.server.stdout:
            if found := re.search(r"sk_live_\w+", line):
                self.key = found.group()
            if found := re.search(r"http://(.*):(\d+)", line):
                self.host, self.port = found.group(1), int(found.group(2))
                self.api = self.connect()
                return
        with open(f"{self.folder}/log") as log:
            raise RequestFailed((log.read().strip().splitlines() or ["no output"])[-1][:100])

    def connect(self):
        """A client with its own connection."""
        return Api(http.client.HTTPConnection(self.host, self.port, timeout=300), self.key, "/api")

    def credentials(self, computer):
        """A computer's agent token, as its root reads it, and its VNC password, for direct requests to its agent."""
        # The second is that of an Incus instance.
        command = "cat /run/hotdesk/token 2>/dev/null || cat /var/lib/hotdesk-boot/token"
        token = self.api("POST", f"/computers/{computer}/bash", {"command": command})["stdout"].strip()
        return token, self.api("GET", f"/computers/{computer}/vnc-password")["password"]

    def socket(self, computer):
        return f"{self.data}/machines/{computer}/agent.sock"

    def agent(self, computer):
        """A client of a computer's agent, without the controller."""
        return Api(UnixConnection(self.socket(computer)), self.credentials(computer)[0])

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
