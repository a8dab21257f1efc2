# Script that runs the code of a POST /exec as __main__ and reports an uncaught exception on a separate
# descriptor: the name of its type, a NUL and its message. Only what each run needs is imported before the code.
import sys


def _hotdesk_run():
    import linecache
    import os

    text, result = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(result, False)
    with open(text, encoding="utf-8", newline="") as source:
        code = source.read()
    sys.argv[:] = ["<exec>"]
    # Tracebacks show the code's own lines.
    linecache.cache["<exec>"] = (len(code), None, code.splitlines(True), "<exec>")
    main = type(sys)("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main

    def report(error):
        try:
            message = str(error)
        except BaseException:
            message = "the exception cannot be shown"
        # The pipe holds 64 KiB: 8,000 characters fit.
        fields = type(error).__name__ + "\0" + message[:8000]
        try:
            os.write(result, fields.encode("utf-8", "replace"))
        except OSError:
            pass  # the code closed the descriptor; the exit status still shows the failure

    def show(error):
        if sys.excepthook is sys.__excepthook__:
            # The interpreter's own hook reads source lines only from files.
            import traceback

            traceback.print_exception(error)
        else:
            sys.excepthook(type(error), error, error.__traceback__)

    try:
        compiled = compile(code, "<exec>", "exec")
    except BaseException as error:
        report(error)
        show(error.with_traceback(None))
        sys.exit(1)
    try:
        exec(compiled, main.__dict__)
    except SystemExit as error:
        if error.code not in (None, 0):
            report(error)
        raise
    except BaseException as error:
        report(error)
        # Without this function's own frame.
        show(error.with_traceback(error.__traceback__.tb_next))
        sys.exit(1)


_hotdesk_run()
