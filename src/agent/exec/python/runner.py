# Script that runs the code of a POST /exec as __main__ and reports an uncaught exception on a separate
# descriptor.
import sys


def _hotdesk_run():
    import json
    import linecache
    import os
    import traceback
    import types

    text, result = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(result, False)
    with open(text, encoding="utf-8", newline="") as source:
        code = source.read()
    sys.argv[:] = ["<exec>"]
    # Tracebacks show the code's own lines.
    linecache.cache["<exec>"] = (len(code), None, code.splitlines(True), "<exec>")
    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main

    def report(error):
        try:
            message = str(error)
        except BaseException:
            message = "the exception cannot be shown"
        # The pipe holds 64 KiB: 8,000 characters fit in any escaping.
        report_fields = {"error": message[:8000], "error_type": type(error).__name__}
        try:
            os.write(result, json.dumps(report_fields, ensure_ascii=True).encode())
        except OSError:
            pass  # the code closed the descriptor; the exit status still shows the failure

    def show(error):
        if sys.excepthook is sys.__excepthook__:
            # The interpreter's own hook reads source lines only from files.
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
