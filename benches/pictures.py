#!/usr/bin/env python3
"""How fast are screenshots, beside the usual tools on the same screen? In the agent alone.

usage: pictures.py HOTDESK_BINARY

Three contents (flat, full of text, photo-like) at two sizes. A mark is painted before each picture, so that none is a
cached one, except where it says "unchanged". Tools are started anew each time, as their users do; mss once also kept.
"""

import os
import subprocess
import sys
import tempfile

from kit import Agent, Painter, Topic, arguments, full_of_text, peer, timed

ROUNDS = 60
TOOL_ROUNDS = 8


def tools(folder):
    png, jpeg = os.path.join(folder, "shot.png"), os.path.join(folder, "shot.jpg")
    python = sys.executable
    return [
        ("scrot", ["scrot", "-o", png], png),
        ("scrot, JPEG", ["scrot", "-o", "-q", "80", jpeg], jpeg),
        ("maim", ["maim", png], png),
        ("import (ImageMagick)", ["import", "-window", "root", png], png),
        ("ffmpeg x11grab", ["ffmpeg", "-y", "-f", "x11grab", "-i", None, "-frames:v", "1", png], png),
        ("python mss", [python, "-c", f"import mss; mss.mss().shot(output={png!r})"], png),
    ]


def kept_mss(display):
    """mss in a process that is kept: what a Python agent would do at best."""
    import mss
    import mss.tools

    os.environ["DISPLAY"] = display
    session = mss.mss()
    return lambda: mss.tools.to_png((shot := session.grab(session.monitors[0])).rgb, shot.size)


def measure(binary, width, height, content, topic):
    with Agent(binary, width, height) as agent, tempfile.TemporaryDirectory() as folder:
        if content == "text":
            full_of_text(agent, width, height)
        painter = Painter(agent.display)
        if content == "photo":
            painter.photo()
        name = f"{height}p {content}"
        medians, sizes = {}, {}
        for form in ("png", "jpeg"):
            path = f"/screenshot?response_format=binary&format={form}"
            sizes[form] = len(agent.api.raw("GET", path))
            spans = timed(lambda: agent.api.raw("GET", path), ROUNDS, painter.nudge)
            medians[form] = topic.spans(f"{name}: hotdesk {form.upper()}", spans, min(spans), sizes[form], 1.0)
        path = "/screenshot?response_format=binary"
        spans = timed(lambda: agent.api.raw("GET", path), 5 * ROUNDS)
        topic.spans(f"{name}: hotdesk PNG, unchanged", spans, min(spans), sizes["png"], None)
        for what, command, output in tools(folder):
            command = [part or agent.display for part in command]
            spans, size = peer(agent.display, command, TOOL_ROUNDS, output, painter.nudge, topic, f"{name}: {what}")
            if spans:
                base = medians["jpeg" if output.endswith("jpg") else "png"]
                middle = sorted(spans)[len(spans) // 2]
                topic.row(f"{name}: {what}", middle, min(spans), size, middle / base)
        try:
            once = kept_mss(agent.display)
            spans, size = timed(once, TOOL_ROUNDS, painter.nudge), len(once())
            middle = sorted(spans)[len(spans) // 2]
            topic.row(f"{name}: python mss, process kept", middle, min(spans), size, middle / medians["png"])
        except ImportError as error:
            topic.skip(f"{name}: python mss, process kept", str(error))
        painter.display.close()


def main():
    (binary,) = arguments("pictures.py HOTDESK_BINARY", 1)
    topic = Topic("screenshots (ms)", "median", "best", "bytes", "times hotdesk")
    for width, height in ((1280, 720), (1920, 1080)):
        for content in ("flat", "text", "photo"):
            measure(binary, width, height, content, topic)
    topic.skip("xcap", "left out: a Rust crate, no tool; ARCHITECTURE.md has a figure of it")
    topic.keep()


if __name__ == "__main__":
    main()
