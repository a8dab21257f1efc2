"""Build step of the wheel: the operations from packaging/openapi.json, and the library without `async`.

    packaging/openapi.json --openapi-python-client--> hotdesk/rest
    hotdesk/_async         --tokens replaced--------> hotdesk/_sync

The tree does not change: what is made lies in a temporary folder until it is in the wheel.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

# Names of the asynchronous library that have another name in the other one. Names that begin with `Async` or `async_` lose it.
NAMES = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "aread": "read",
    "enter_async_context": "enter_context",
    "asynccontextmanager": "contextmanager",
    # The functions of an operation.
    "asyncio": "sync",
    "StopAsyncIteration": "StopIteration",
}


def without_async(source: str) -> str:
    """The source of the library that blocks, from that of the asynchronous one."""
    # What is a coroutine there has been carried out here.
    source = re.sub(r"Opening\[(\w+)\]", r"\1", source)
    lines = source.splitlines(keepends=True)
    changes = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string
        if token.type == tokenize.NAME and text in ("async", "await"):
            changes.append((token.start, (token.end[0], token.end[1] + 1), ""))
        elif token.type == tokenize.NAME:
            new = NAMES.get(text) or re.sub(r"^(Async(?=[A-Z])|async_)", "", text)
            if new != text:
                changes.append((token.start, token.end, new))
        elif token.type == tokenize.STRING and "sync" in text:
            # Types in quotes, and names in documentation.
            changes.append(
                (token.start, token.end, re.sub(r"\b(Async(?=[A-Z])|async (?=with|for))", "", text))
            )
    for (row, column), (end_row, end_column), new in reversed(changes):
        first, last = lines[row - 1], lines[end_row - 1]
        lines[row - 1 : end_row] = [first[:column] + new + last[end_column:]]
    return "".join(lines)


def generate(folder: Path) -> None:
    """Writes the packages `rest` and `_sync` into `folder`."""
    settings = folder / "generator.yaml"
    shared = ROOT / "packaging/dev/openapi/python.yaml"
    settings.write_text(shared.read_text() + (HERE / "generator.yaml").read_text())
    command = [
        sys.executable,
        "-m",
        "openapi_python_client",
        "generate",
        "--meta",
        "none",
        "--fail-on-warning",
        "--path",
        str(ROOT / "packaging/openapi.json"),
        "--config",
        str(settings),
        "--custom-template-path",
        str(HERE / "templates"),
        "--output-path",
        str(folder / "rest"),
    ]
    # ruff, which the generator calls, is installed beside this Python.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    subprocess.run(command, check=True, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL)
    settings.unlink()
    blocking = folder / "_sync"
    blocking.mkdir()
    for source in sorted((HERE / "hotdesk/_async").glob("*.py")):
        (blocking / source.name).write_text(without_async(source.read_text()))


class Hook(BuildHookInterface):
    """Adds what is generated, and the licences, to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self.made = tempfile.TemporaryDirectory(prefix="hotdesk-client.")
        folder = Path(self.made.name)
        generate(folder)
        build_data["force_include"] = {str(folder / name): f"hotdesk/{name}" for name in ("rest", "_sync")}
        for name in ("LICENSE-MIT", "LICENSE-APACHE"):
            build_data["extra_metadata"][str(ROOT / name)] = name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.made.cleanup()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: hatch_build.py FOLDER      writes the generated packages into FOLDER")
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    generate(target)
