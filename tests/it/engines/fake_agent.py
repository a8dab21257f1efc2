# HTTP server as the first process of a test guest: runs shell scripts and stores files. It listens on descriptor 3, or on the
# agents' port if there is no such descriptor.
import os, signal, socket, subprocess, threading
from http.server import BaseHTTPRequestHandler, HTTPServer

class Agent(BaseHTTPRequestHandler):
    count = 0
    def address_string(self): return "host"
    def log_message(self, *_): pass
    def body(self): return self.rfile.read(int(self.headers.get("Content-Length", 0)))
    def answer(self, status, data):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        try: self.answer(200, open("/root/kept" + self.path, "rb").read())
        except FileNotFoundError: self.answer(404, b"")
    def do_PUT(self):
        os.makedirs("/root/kept", exist_ok=True)
        open("/root/kept" + self.path, "wb").write(self.body())
        self.answer(200, b"")
    def do_POST(self):
        if self.path == "/crash": os._exit(3)
        if self.path == "/count":
            Agent.count += 1
            return self.answer(200, b"%d" % Agent.count)
        result = subprocess.run(["sh", "-c", self.body()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, timeout=200)
        self.answer(200, b"%d\n" % result.returncode + result.stdout)

class Server(HTTPServer):
    def __init__(self):
        try: self.socket = socket.socket(fileno=3)
        except OSError: self.socket = socket.create_server(("", 870))
        self.socket.set_inheritable(False)
        self.server_address, self.RequestHandlerClass = "fd:3", Agent
        self._BaseServer__is_shut_down = threading.Event()
        self._BaseServer__shutdown_request = False
    def get_request(self):
        connection, _ = self.socket.accept()
        return connection, "host"

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
Server().serve_forever()
