# Script of a Python session: runs the code of one POST /exec after another in one __main__.
# The socket whose number is the first argument delivers {"code", "stdin"} and takes {"error", "error_type"}
# or {}. A little-endian length of four bytes precedes each message.
import sys


def _hotdesk_session():
    import json
    import linecache
    import os
    import socket
    import struct
    import traceback
    import types

    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    sys.argv[:] = ["<exec>"]
    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    owner = os.getpid()

    def receive(length):
        data = bytearray()
        while len(data) < length:
            piece = control.recv(min(length - len(data), 1 << 20))
            if not piece:
                os._exit(0)
            data += piece
        return bytes(data)

    def feed(text):
        if text is None:
            source = os.open("/dev/null", os.O_RDONLY)
        else:
            source = os.memfd_create("stdin")
            with open(source, "wb", closefd=False) as memory:
                memory.write(text.encode("utf-8", "surrogatepass"))
            os.lseek(source, 0, os.SEEK_SET)
        os.dup2(source, 0)
        os.close(source)
        sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)

    def failure(error):
        try:
            message = str(error)
        except BaseException:
            message = "the exception cannot be shown"
        return {"error": message[:8000], "error_type": type(error).__name__}

    def show(error):
        try:
            if sys.excepthook is sys.__excepthook__:
                # The interpreter's own hook reads source lines only from files.
                traceback.print_exception(error)
            else:
                sys.excepthook(type(error), error, error.__traceback__)
        except BaseException:
            pass  # a hook that the code installed failed; the error is reported all the same

    def run(code, name):
        # Tracebacks show the code's own lines, those of earlier calls too.
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        try:
            compiled = compile(code, name, "exec")
        except BaseException as error:
            show(error.with_traceback(None))
            return failure(error)
        try:
            exec(compiled, main.__dict__)
        except SystemExit as error:
            return {} if error.code in (None, 0) else failure(error)
        except BaseException as error:
            # Without this function's own frame.
            show(error.with_traceback(error.__traceback__.tb_next))
            return failure(error)
        return {}

    calls = 0
    while True:
        (length,) = struct.unpack("<I", receive(4))
        call = json.loads(receive(length))
        calls += 1
        feed(call["stdin"])
        reply_fields = run(call["code"], "<exec %d>" % calls)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:
                pass  # the code closed or replaced it
        if os.getpid() != owner:
            os._exit(1 if reply_fields else 0)  # the code forked, and this is the child
        reply = json.dumps(reply_fields, ensure_ascii=True).encode()
        control.sendall(struct.pack("<I", len(reply)) + reply)


_hotdesk_session()
