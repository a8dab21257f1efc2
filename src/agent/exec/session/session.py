# Script of a Python session: runs the code of one POST /exec after another in one __main__.
# The socket whose number is the first argument delivers a call and takes its reply.
#   call:  length of the code, length of the standard input or 0xffffffff for none, code, standard input
#   reply: length of the rest, then nothing, or the name of the exception's type, a NUL and its message
# Lengths are four bytes, little-endian; texts are UTF-8. Only what most calls need is imported: each module
# delays the first call.
import sys


def _hotdesk_session():
    import linecache
    import os

    NONE = 0xFFFFFFFF
    control = int(sys.argv[1])
    os.set_inheritable(control, False)
    sys.argv[:] = ["<exec>"]
    main = type(sys)("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    owner = os.getpid()
    # The code may replace these functions of the module.
    read, write = os.read, os.write

    def receive(length):
        data = bytearray()
        while len(data) < length:
            piece = read(control, min(length - len(data), 1 << 20))
            if not piece:
                os._exit(0)
            data += piece
        return bytes(data)

    def receive_length():
        return int.from_bytes(receive(4), "little")

    def send(data):
        while data:
            data = data[write(control, data):]

    def feed(text):
        if text is None:
            source = os.open("/dev/null", os.O_RDONLY)
        else:
            source = os.memfd_create("stdin")
            with open(source, "wb", closefd=False) as memory:
                memory.write(text)
            os.lseek(source, 0, os.SEEK_SET)
        os.dup2(source, 0)
        os.close(source)
        sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)

    def failure(error):
        try:
            message = str(error)
        except BaseException:
            message = "the exception cannot be shown"
        return (type(error).__name__ + "\0" + message[:8000]).encode("utf-8", "replace")

    def show(error):
        try:
            if sys.excepthook is sys.__excepthook__:
                # The interpreter's own hook reads source lines only from files.
                import traceback

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
            return b"" if error.code in (None, 0) else failure(error)
        except BaseException as error:
            # Without this function's own frame.
            show(error.with_traceback(error.__traceback__.tb_next))
            return failure(error)
        return b""

    calls = 0
    while True:
        code_length, stdin_length = receive_length(), receive_length()
        code = receive(code_length).decode()
        calls += 1
        feed(None if stdin_length == NONE else receive(stdin_length))
        reply = run(code, "<exec %d>" % calls)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:
                pass  # the code closed or replaced it
        if os.getpid() != owner:
            os._exit(1 if reply else 0)  # the code forked, and this is the child
        send(len(reply).to_bytes(4, "little") + reply)


_hotdesk_session()
