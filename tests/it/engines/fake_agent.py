# HTTP server as the first process of a test guest: runs shell scripts and stores files. It listens on the socket that its
# argument names, else on descriptor 3, or on the agents' port if there is no such descriptor. It imports nothing but built-in modules, because an emulated machine takes a
# second to import `http.server`, at each of its boots.
import os, sys, _signal, _socket

count = 0

def script(text):
    """Runs a shell script; returns its exit code and its output."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for signal in _signal.SIGPIPE, _signal.SIGXFSZ: _signal.signal(signal, _signal.SIG_DFL)
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(write, 1)
            os.dup2(write, 2)
            _signal.alarm(200)
            os.execv("/bin/sh", ["sh", "-c", text])
        finally: os._exit(127)
    os.close(write)
    with open(read, "rb") as file: output = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), output

def answer(method, path, body):
    global count
    if method == b"GET":
        try: return 200, open(b"/root/kept" + path, "rb").read()
        except FileNotFoundError: return 404, b""
    if method == b"PUT":
        os.makedirs("/root/kept", exist_ok=True)
        with open(b"/root/kept" + path, "wb") as file: file.write(body)
        return 200, b""
    if path == b"/crash": os._exit(3)
    if path == b"/count":
        count += 1
        return 200, b"%d" % count
    return 200, b"%d\n%s" % script(body)

def serve(connection):
    head, body, length = b"", b"", 0
    while b"\r\n\r\n" not in head or len(body) < length:
        piece = connection.read(65536)
        if not piece: return
        head += piece
        start, _, body = head.partition(b"\r\n\r\n")
        lengths = [line for line in start.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        length = int(lengths[0].partition(b":")[2]) if lengths else 0
    method, path, _ = head.split(b" ", 2)
    status, data = answer(method, path, body)
    connection.write(b"HTTP/1.1 %d -\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(data), data))

if sys.argv[1:]:
    listener = _socket.socket(_socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen()
else:
    try: listener = _socket.socket(fileno=3)
    except OSError:
        listener = _socket.socket()
        listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        listener.bind(("", 870))
        listener.listen()
os.set_inheritable(listener.fileno(), False)
_signal.signal(_signal.SIGTERM, lambda *_: os._exit(0))
while True:
    try:
        with open(listener._accept()[0], "r+b", 0) as connection: serve(connection)
    except OSError as error: print(error, flush=True)
