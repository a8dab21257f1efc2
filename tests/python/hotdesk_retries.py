"""Retries, keys of idempotency and typed errors of the library `hotdesk`, against a server with prepared answers.

usage: hotdesk_retries.py      needs no service; the last line of its output is `done`
"""

import asyncio
import base64
import copy
import io
import json
import os
import pickle
import struct
import tempfile
import threading
import time
import types
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import hotdesk
import PIL.Image
from hotdesk import AsyncClient, AsyncComputer, Client, Computer

ID = "11111111-1111-4111-8111-111111111111"
DONE = (200, {}, {"success": True, "action": "click"})
BUSY = (429, {"Retry-After": "1"}, {"error": "Too many requests", "code": "RATE_LIMITED", "request_id": "f" * 32})
# A connection that ends without an answer.
BROKEN = None


class Prepared(ThreadingHTTPServer):
    """Answers in order; then with the last one. It keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list = []
        self.requests: list = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def prepare(self, *answers) -> None:
        self.answers, self.requests = list(answers), []

    def keys(self) -> list:
        return [headers.get("Idempotency-Key") for _, _, headers, _ in self.requests]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        while self.headers.get("Transfer-Encoding") == "chunked":
            size = int(self.rfile.readline(), 16)
            body += self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                break
        server = self.server
        server.requests.append((self.command, self.path, self.headers, body))
        prepared = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        if prepared is BROKEN:
            self.close_connection = True
            return
        status, headers, content = prepared
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"X-Request-Id": "a" * 32, "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_) -> None:
        pass


def refused(kind, act):
    """The error of what has to fail with this one."""
    try:
        act()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def check_changes(server: Prepared, computer: Computer) -> None:
    server.prepare(BUSY, (503, {"Retry-After": "0"}, {"error": "starts"}), DONE)
    began = time.monotonic()
    assert computer.click(1, 2).success
    assert time.monotonic() - began >= 1.0, "Retry-After was not waited for"
    keys = server.keys()
    assert len(keys) == 3 and len(set(keys)) == 1 and len(keys[0]) >= 8, keys
    assert len({(path, body) for _, path, _, body in server.requests}) == 1, "the requests are the same"
    assert server.requests[0][2]["Authorization"] == "Bearer sk_live_test"
    first = keys[0]
    server.prepare(DONE)
    computer.click(1, 2)
    assert server.keys()[0] not in (None, first), "another call is another request"
    # The service may have done it, and knows the key.
    server.prepare(BROKEN, DONE)
    computer.click(1, 2)
    assert len(server.keys()) == 2 and len(set(server.keys())) == 1, server.keys()
    server.prepare((409, {"Retry-After": "0"}, {"error": "it runs", "code": "idempotency_in_progress"}), DONE)
    assert computer.click(1, 2).success and len(server.requests) == 2
    # The first delivery of a long command is waited for, more often than a request is repeated.
    running = (409, {"Retry-After": "0"}, {"error": "it runs", "code": "idempotency_in_progress"})
    server.prepare(BROKEN, *[running] * 8, DONE)
    assert computer.click(1, 2).success and len(set(server.keys())) == 1, server.keys()
    server.prepare((429, {}, b"a proxy"), DONE)
    assert computer.click(1, 2).success and len(server.requests) == 2
    # A read in place of the change would look like its answer.
    server.prepare((301, {"Location": "https://desk.example/"}, b""), DONE)
    error = refused(hotdesk.ConnectionFailed, computer.stop)
    assert "https://desk.example/" in str(error) and len(server.requests) == 1, error
    # Nobody knows whether it was done, and nothing says that a retry helps.
    server.prepare((503, {}, {"error": "failed"}), DONE)
    error = refused(hotdesk.Unavailable, lambda: computer.click(1, 2))
    assert error.retry_after is None and len(server.requests) == 1, server.requests


def check_reads(server: Prepared, computer: Computer) -> None:
    windows = (200, {}, {"windows": []})
    server.prepare((502, {}, b"<html>proxy</html>"), BROKEN, windows)
    assert computer.windows() == [] and server.keys() == [None] * 3, server.keys()


def control(revision: int) -> tuple:
    return (200, {}, {"screen": "default", "revision": revision, "holder": None})


def check_renewals(server: Prepared, computer: Computer) -> None:
    """A renewal of control may be lost, but no later one is sent when the time of the control is over."""
    busy = (503, {}, {"error": "busy"})
    server.prepare(control(1), busy, control(2))
    with computer.control.take(seconds=3) as lease:
        while lease.state.revision < 2:
            time.sleep(0.01)

    def lapses() -> None:
        server.prepare(control(1), busy)
        with computer.control.take(seconds=1):
            count = 0
            while count < len(server.requests):
                count = len(server.requests)
                time.sleep(1.5)
            server.prepare(control(2))

    assert refused(hotdesk.Unavailable, lapses).status == 503


def check_bounds(server: Prepared) -> None:
    with Client(server.url, "sk_live_test", max_retry_wait=5) as client:
        computer = Computer(ID, client=client)
        server.prepare((429, {"Retry-After": "6"}, BUSY[2]))
        error = refused(hotdesk.RateLimited, lambda: computer.click(1, 2))
        assert len(server.requests) == 1, "it would wait for too long"
        assert (error.status, error.code, error.retry_after) == (429, "RATE_LIMITED", 6.0), error
        assert error.request_id == "a" * 32 and error.request_id in str(error), error
    with Client(server.url, "sk_live_test", max_retries=2) as client:
        computer = Computer(ID, client=client)
        server.prepare((429, {"Retry-After": "0"}, BUSY[2]))
        refused(hotdesk.RateLimited, lambda: computer.click(1, 2))
        assert len(server.requests) == 3 and len(set(server.keys())) == 1, server.keys()


def check_large_bodies(server: Prepared, computer: Computer) -> None:
    written = {"path": "x", "size": 1, "sha256": "0", "outcome": "created"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large"
        file.write_bytes(b"x" * 3_000_000)
        server.prepare((201, {}, written))
        computer.files.upload(file, "x")
        assert server.keys() == [None] and len(server.requests[0][3]) == 3_000_000, "too large for a key"
        server.prepare(BUSY, BROKEN, (201, {}, written))
        computer.files.upload(file, "x")
        assert [len(body) for _, _, _, body in server.requests] == [3_000_000] * 3, "it is read again"
        # If the file is there then, nobody knows who made it.
        server.prepare(BROKEN, (201, {}, written))
        refused(hotdesk.ConnectionFailed, lambda: computer.files.upload(file, "x", overwrite=False))
        assert len(server.requests) == 1
        # What was read of a stream is gone.
        server.prepare(BUSY, (201, {}, written))
        content = iter([b"a", b"b"])
        refused(hotdesk.RateLimited, lambda: computer.client.request("PUT", "/x", content=content))
        assert len(server.requests) == 1
        file.write_bytes(b"small")
        server.prepare(BUSY, (201, {}, written))
        computer.files.upload(file, "x")
        assert server.keys()[0] and len(set(server.keys())) == 1, server.keys()


def check_errors(server: Prepared, computer: Computer) -> None:
    cases = [
        (400, hotdesk.InvalidRequest),
        (401, hotdesk.Unauthenticated),
        (402, hotdesk.PaymentRequired),
        (403, hotdesk.AccessDenied),
        (404, hotdesk.NotFound),
        (409, hotdesk.Conflict),
        (422, hotdesk.InvalidRequest),
        (500, hotdesk.ServerError),
        (504, hotdesk.TimedOut),
    ]
    for status, kind in cases:
        server.prepare((status, {}, {"error": "why", "code": "CODE", "extra": 5}))
        error = refused(kind, lambda: computer.click(1, 2))
        assert type(error) is kind and isinstance(error, hotdesk.ApiError), error
        assert (error.status, error.message, error.code) == (status, "why", "CODE"), error
        assert error.details["extra"] == 5, error.details
        for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
            assert type(again) is kind and str(again) == str(error) and again.status == status, again
    server.prepare((404, {}, {"error": {"message": "no model", "code": "invalid_model"}}))
    error = refused(hotdesk.NotFound, lambda: computer.click(1, 2))
    assert (error.message, error.code) == ("no model", "invalid_model"), error
    server.prepare((400, {}, b"no JSON"))
    assert refused(hotdesk.InvalidRequest, lambda: computer.click(1, 2)).message == "no JSON"
    with Client("http://127.0.0.1:1", "sk_live_test", max_retries=1) as nowhere:
        error = refused(hotdesk.ConnectionFailed, lambda: Computer(ID, client=nowhere).click(1, 2))
        assert not isinstance(error, hotdesk.NoAnswer) and error.__cause__, error


def check_downloads(server: Prepared, computer: Computer) -> None:
    """A download touches no file but its own."""
    with tempfile.TemporaryDirectory() as folder:
        beside = Path(folder) / "x.part"
        beside.write_bytes(b"mine")
        server.prepare((404, {}, {"error": "none"}))
        refused(hotdesk.NotFound, lambda: computer.files.download("x", Path(folder) / "x"))
        assert os.listdir(folder) == ["x.part"] and beside.read_bytes() == b"mine"
        server.prepare((200, {}, b"got"))
        assert computer.files.download("x", Path(folder) / "x").read_bytes() == b"got"
        assert sorted(os.listdir(folder)) == ["x", "x.part"] and beside.read_bytes() == b"mine"


def check_workspaces(server: Prepared, client: Client) -> None:
    """A workspace that another program makes in between is found."""
    taken = (400, {}, {"error": "taken", "code": "NAME_TAKEN"})
    server.prepare((200, {}, {"projects": [], "workspaces": []}), taken, (404, {}, {"error": "stop here"}))
    refused(hotdesk.NotFound, lambda: Computer.create(workspace="team", client=client))
    assert [path for _, path, _, _ in server.requests][2] == "/api/workspaces/by-name/team", server.requests


async def check_async(server: Prepared, folder: str) -> None:
    async with AsyncClient(server.url, "sk_live_test") as client:
        computer = AsyncComputer(ID, client=client)
        server.prepare(BUSY, BROKEN, DONE)
        assert (await computer.click(1, 2)).success
        assert len(server.keys()) == 3 and len(set(server.keys())) == 1, server.keys()
        large = Path(folder) / "large"
        large.write_bytes(b"x" * 3_000_000)
        server.prepare(BUSY, (201, {}, {"path": "x", "size": 1, "sha256": "0", "outcome": "created"}))
        await computer.files.upload(large, "x")
        assert [len(body) for _, _, _, body in server.requests] == [3_000_000] * 2
        server.prepare((404, {}, {"error": "none"}))
        try:
            await computer.click(1, 2)
        except hotdesk.NotFound as error:
            assert error.message == "none"
        else:
            raise AssertionError("no error")


def check_settings(server: Prepared) -> None:
    """Arguments, then the environment, then the profile, whose key goes to its own server only."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = home
        for name in ("HOTDESK_URL", "HOTDESK_API_KEY", "HOTDESK_PROFILE"):
            os.environ.pop(name, None)
        refused(hotdesk.ConfigurationError, Client)
        (Path(home) / ".hotdesk").mkdir()
        profiles = {"demo": {"apiKey": "sk_live_profile", "url": f"{server.url}/api/"}}
        stored = json.dumps({"current": "demo", "profiles": profiles})
        (Path(home) / ".hotdesk/credentials.json").write_text(stored)
        server.prepare(DONE)
        with Client() as client:
            Computer(ID, client=client).click(1, 2)
        _, path, headers, _ = server.requests[0]
        assert headers["Authorization"] == "Bearer sk_live_profile" and path == f"/api/computers/{ID}/click", path
        refused(hotdesk.ConfigurationError, lambda: Client("http://127.0.0.1:2"))
        os.environ["HOTDESK_PROFILE"] = "other"
        assert "other" in str(refused(hotdesk.ConfigurationError, Client))
        del os.environ["HOTDESK_PROFILE"]
        refused(hotdesk.ConfigurationError, lambda: Client("ftp://127.0.0.1", "key"))
        error = refused(hotdesk.ConfigurationError, lambda: Client("http://me:secret@127.0.0.1", "key"))
        assert "secret" not in str(error), error
        # The error of a header that cannot be sent shows it.
        error = refused(hotdesk.ConfigurationError, lambda: Client("http://127.0.0.1:2", "secret\nkey"))
        assert "secret" not in str(error), error
        Client("http://127.0.0.1:2", "sk_live_of_a_file\n").close()
        os.environ["HOTDESK_API_KEY"] = "sk_live_environment"
        Client("http://127.0.0.1:2").close()


def encoded(kind: str, size: tuple) -> bytes:
    content = io.BytesIO()
    PIL.Image.new("RGB", size, "red").save(content, kind)
    return content.getvalue()


def check_pictures(server: Prepared, computer: Computer) -> None:
    """A computer can send any bytes as a picture."""
    for kind in ("png", "jpeg", "webp"):
        content = encoded(kind, (8, 6))
        # The type is that of the bytes.
        server.prepare((200, {"Content-Type": "text/html", "X-Hotdesk-Frame": "f1"}, content))
        shown = computer.screenshot()
        assert (shown.size, shown.format, shown.info["frame"]) == ((8, 6), kind.upper(), "f1"), shown
        shot = {
            "success": True,
            "image": base64.b64encode(content).decode(),
            "mime_type": "image/png",
            "width": 8,
            "height": 6,
        }
        server.prepare((200, {}, {"success": True, "action": "click", "screenshot": shot}))
        assert hotdesk.picture_of(computer.click(1, 2).screenshot).size == (8, 6), kind
    png = encoded("png", (8, 6))
    # The width and height of its header, whose checksum is then another one.
    header = b"IHDR" + struct.pack(">II", 60_000, 60_000) + png[24:29]
    huge = png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]
    drawing = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 6\nshowpage\n"
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>'
    for content in (huge, drawing, svg, encoded("gif", (8, 6)), png[:40], b""):
        server.prepare((200, {"Content-Type": "image/png"}, content))
        refused(hotdesk.HotdeskError, computer.screenshot)
        text = base64.b64encode(content).decode()
        refused(hotdesk.HotdeskError, lambda text=text: hotdesk.picture_of(types.SimpleNamespace(image=text)))
    for text in ("a", "data:image/png;base64,AAAA", "A" * 200_000_000):
        refused(hotdesk.HotdeskError, lambda text=text: hotdesk.picture_of(types.SimpleNamespace(image=text)))


def main() -> None:
    server = Prepared()
    with Client(server.url, "sk_live_test") as client:
        computer = Computer(ID, client=client)
        check_changes(server, computer)
        check_reads(server, computer)
        check_renewals(server, computer)
        check_bounds(server)
        check_large_bodies(server, computer)
        check_errors(server, computer)
        check_downloads(server, computer)
        check_pictures(server, computer)
        check_workspaces(server, client)
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(check_async(server, folder))
        check_settings(server)
    print("done")


if __name__ == "__main__":
    main()
