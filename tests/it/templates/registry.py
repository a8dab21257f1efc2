"""A registry of Debian, Python and Node.js packages on port 8123, with one package each; lists its requests in a file."""

import base64, hashlib, http.server, io, json, os, subprocess, tarfile, zipfile

HOST = "http://127.0.0.1:8123"
REQUESTS = "/tmp/requests"


def deb():
    """A package without files. The environment fixes its times, so it always has the same bytes."""
    os.makedirs("/tmp/labdeb/DEBIAN", exist_ok=True)
    fields = {"Package": "labdeb", "Version": "1.0", "Architecture": "all", "Maintainer": "test", "Description": "test"}
    control = "".join(f"{name}: {value}\n" for name, value in fields.items())
    with open("/tmp/labdeb/DEBIAN/control", "w") as file:
        file.write(control)
    command = ["dpkg-deb", "--root-owner-group", "-b", "/tmp/labdeb", "/tmp/labdeb.deb"]
    subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "0"}, stdout=subprocess.DEVNULL)
    content = open("/tmp/labdeb.deb", "rb").read()
    digest = hashlib.sha256(content).hexdigest()
    return content, f"{control}Filename: ./labdeb_1.0_all.deb\nSize: {len(content)}\nSHA256: {digest}\n\n"


def wheel():
    buffer, folder = io.BytesIO(), "labwheel-1.0.dist-info"
    files = {
        "labwheel.py": "",
        f"{folder}/METADATA": "Metadata-Version: 2.1\nName: labwheel\nVersion: 1.0\n",
        f"{folder}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{folder}/RECORD": f"labwheel.py,,\n{folder}/METADATA,,\n{folder}/WHEEL,,\n{folder}/RECORD,,\n",
    }
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0)), text)
    return buffer.getvalue()


def tarball():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:") as archive:
        content = json.dumps({"name": "labtool", "version": "1.0.0"}).encode()
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    import gzip

    return gzip.compress(buffer.getvalue(), mtime=0)


DEB, PACKAGES = deb()
WHEEL, TARBALL = wheel(), tarball()
INTEGRITY = "sha512-" + base64.b64encode(hashlib.sha512(TARBALL).digest()).decode()
VERSION = {
    "name": "labtool",
    "version": "1.0.0",
    "dist": {"tarball": f"{HOST}/npm/labtool/-/labtool-1.0.0.tgz", "integrity": INTEGRITY},
}
PAGES = {
    "/deb/./Packages": ("text/plain", PACKAGES.encode()),
    "/deb/./labdeb_1.0_all.deb": ("application/octet-stream", DEB),
    "/simple/labwheel/": ("text/html", b'<a href="/files/labwheel-1.0-py3-none-any.whl">labwheel-1.0-py3-none-any.whl</a>'),
    "/files/labwheel-1.0-py3-none-any.whl": ("application/octet-stream", WHEEL),
    "/npm/labtool": (
        "application/json",
        json.dumps({"name": "labtool", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": VERSION}}).encode(),
    ),
    "/npm/labtool/-/labtool-1.0.0.tgz": ("application/octet-stream", TARBALL),
}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(REQUESTS, "a") as requests:
            requests.write(self.path + "\n")
        if self.path not in PAGES:
            self.send_error(404)
            return
        kind, content = PAGES[self.path]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        age = 86400 if "octet" in kind else 0
        self.send_header("Cache-Control", f"max-age={age}")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 8123), Handler)
with open("/tmp/ready", "w") as ready:
    ready.write("ready\n")
server.serve_forever()
