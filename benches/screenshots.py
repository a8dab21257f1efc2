#!/usr/bin/env python3
"""How fast are screenshots, beside the usual tools on the same screen? In the agent alone.

usage: pictures.py HOTDESK_BINARY PEERS_BINARY

Three contents (flat, full of text, photo-like) at two sizes. A mark is painted before each picture, so that none is a
cached one, except where it says "unchanged". Tools are started anew each time, as their users do; mss once also kept.
xcap is a library: it is kept, and has neither a request to answer nor a cache, so nothing is painted between its pictures.
The goals are judged by a client that costs next to nothing, because Python's HTTP client alone takes 0.05 ms.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile

from kit import Agent, Painter, Topic, arguments, few, full_of_text, library, peer, timed

ROUNDS = few(60)
TOOL_ROUNDS = few(8)
LIBRARY_ROUNDS = few(20)
# What the issue asks for at 720p, in milliseconds.
GOALS = {("flat", "png"): 3, ("text", "png"): 9, ("photo", "png"): 9, ("flat", "jpeg"): 4, ("text", "jpeg"): 4,
         ("photo", "jpeg"): 4}
UNCHANGED_GOAL = 0.2


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


def ours(agent, painter, name, content, topic, goals):
    """Rows of hotdesk; the medians of changed pictures by format."""
    medians = {}
    wire = agent.wire()
    path = "/screenshot?response_format=binary"
    for form in ("png", "jpeg"):
        asked = f"{path}&format={form}"
        look = wire.ask("GET", asked)
        spans, size = timed(lambda: agent.api.raw("GET", asked), ROUNDS, painter.nudge), look()[1]
        medians[form] = topic.spans(f"{name}: hotdesk {form.upper()}", spans, min(spans), size, 1.0)
        bare = statistics.median(timed(look, ROUNDS, painter.nudge))
        if goals:
            topic.goal(f"{name}: {form.upper()}", bare, most=GOALS[content, form])
    look = wire.ask("GET", path)
    size = look()[1]
    tag = re.search(rb'etag: ("[^"]+")', bytes(wire.view[:1000]), re.IGNORECASE).group(1).decode()
    spans = timed(lambda: agent.api.raw("GET", path), 5 * ROUNDS)
    topic.spans(f"{name}: hotdesk PNG, unchanged", spans, min(spans), size, None)
    spans = timed(look, 5 * ROUNDS)
    bare = topic.spans(f"{name}: hotdesk PNG, unchanged, bare socket", spans, min(spans), size, None)
    same = wire.ask("GET", path, fields=f"If-None-Match: {tag}\r\n")
    assert same() == (304, 0), "the screen changed by itself"
    spans = timed(same, 5 * ROUNDS)
    told = topic.spans(f"{name}: hotdesk, unchanged, told so (304), bare socket", spans, min(spans), 0, None)
    if goals:
        topic.goal(f"{name}: unchanged, all its {size} bytes", bare, most=UNCHANGED_GOAL)
        topic.goal(f"{name}: unchanged, told so (304)", told, most=UNCHANGED_GOAL)
    return medians


def xcap(peers, agent, name, medians, topic):
    for row in library(peers, agent.display, "capture", LIBRARY_ROUNDS):
        kind = row["what"]
        what = {"png": "xcap, process kept, PNG", "jpeg": "xcap, process kept, JPEG",
                "pixels": "xcap, process kept, pixels alone"}[kind]
        base = medians.get(kind)
        topic.row(f"{name}: {what}", row["median"], row["best"], row["bytes"], base and row["median"] / base)


def measure(binary, peers, width, height, content, topic):
    with Agent(binary, width, height) as agent, tempfile.TemporaryDirectory() as folder:
        if content == "text":
            full_of_text(agent, width, height)
        painter = Painter(agent.display)
        if content == "photo":
            painter.photo()
        name = f"{height}p {content}"
        medians = ours(agent, painter, name, content, topic, goals=height == 720)
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
        xcap(peers, agent, name, medians, topic)
        painter.display.close()


def main():
    binary, peers = arguments("pictures.py HOTDESK_BINARY PEERS_BINARY", 2)
    topic = Topic("screenshots (ms)", "median", "best", "bytes", "times hotdesk")
    for width, height in ((1280, 720), (1920, 1080)):
        for content in ("flat", "text", "photo"):
            measure(binary, peers, width, height, content, topic)
    topic.keep()


if __name__ == "__main__":
    main()
