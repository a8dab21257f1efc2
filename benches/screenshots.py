#!/usr/bin/env python3
"""Speed of screenshots at the agent, beside common tools on the same screen.

usage: screenshots.py HOTDESK_BINARY PEERS_BINARY

Three contents (flat, full of text, photo-like) at two sizes. A mark is painted before each screenshot, so that none comes
from the cache, except in rows labelled "unchanged". Each tool runs in a new process, as people use it; mss also in a
persistent one. xcap is a library in a persistent process. It has no request and no cache, so nothing is painted between
its screenshots. The goals use a raw socket client, because Python's HTTP client alone takes 0.05 ms.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile

from support import Agent, Painter, Table, arguments, fill_with_text, peer_library, scaled, time_tool, timed

ROUNDS = scaled(60)
TOOL_ROUNDS = scaled(8)
LIBRARY_ROUNDS = scaled(20)
# Goals at 720p, in milliseconds.
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


def persistent_mss(display):
    """A function that takes a PNG with mss in this process: the best case of an agent in Python."""
    import mss
    import mss.tools

    os.environ["DISPLAY"] = display
    session = mss.mss()
    return lambda: mss.tools.to_png((shot := session.grab(session.monitors[0])).rgb, shot.size)


def measure_hotdesk(agent, painter, name, content, table, goals):
    """Adds the rows of hotdesk; returns the medians of changed screenshots by format."""
    medians = {}
    client = agent.raw_client()
    path = "/screenshot?response_format=binary"
    for format in ("png", "jpeg"):
        url = f"{path}&format={format}"
        take = client.prepare("GET", url)
        durations, size = timed(lambda: agent.api.raw("GET", url), ROUNDS, painter.nudge), take()[1]
        medians[format] = table.durations(f"{name}: hotdesk {format.upper()}", durations, min(durations), size, 1.0)
        bare = statistics.median(timed(take, ROUNDS, painter.nudge))
        if goals:
            table.goal(f"{name}: {format.upper()}", bare, most=GOALS[content, format])
    take = client.prepare("GET", path)
    size = take()[1]
    tag = re.search(rb'etag: ("[^"]+")', bytes(client.view[:1000]), re.IGNORECASE).group(1).decode()
    durations = timed(lambda: agent.api.raw("GET", path), 5 * ROUNDS)
    table.durations(f"{name}: hotdesk PNG, unchanged", durations, min(durations), size, None)
    durations = timed(take, 5 * ROUNDS)
    bare = table.durations(f"{name}: hotdesk PNG, unchanged, bare socket", durations, min(durations), size, None)
    same = client.prepare("GET", path, fields=f"If-None-Match: {tag}\r\n")
    assert same() == (304, 0), "the screen changed on its own"
    durations = timed(same, 5 * ROUNDS)
    not_modified = table.durations(f"{name}: hotdesk, unchanged, 304, bare socket", durations, min(durations), 0, None)
    if goals:
        table.goal(f"{name}: unchanged, all its {size} bytes", bare, most=UNCHANGED_GOAL)
        table.goal(f"{name}: unchanged, 304", not_modified, most=UNCHANGED_GOAL)
    return medians


def xcap(peers, agent, name, medians, table):
    for row in peer_library(peers, agent.display, "capture", LIBRARY_ROUNDS):
        kind = row["what"]
        what = {"png": "xcap, persistent process, PNG", "jpeg": "xcap, persistent process, JPEG",
                "pixels": "xcap, persistent process, pixels only",
                "png_crate_up": "png crate, filter Up, no capture",
                "png_crate_adaptive": "png crate, adaptive filter, no capture"}[kind]
        base = medians.get(kind.split("_")[0])
        table.row(f"{name}: {what}", row["median"], row["best"], row["bytes"], base and row["median"] / base)


def measure(binary, peers, width, height, content, table):
    with Agent(binary, width, height) as agent, tempfile.TemporaryDirectory() as folder:
        if content == "text":
            fill_with_text(agent, width, height)
        painter = Painter(agent.display)
        if content == "photo":
            painter.photo()
        name = f"{height}p {content}"
        medians = measure_hotdesk(agent, painter, name, content, table, goals=height == 720)
        for what, command, output in tools(folder):
            command = [part or agent.display for part in command]
            durations, size = time_tool(agent.display, command, TOOL_ROUNDS, output, painter.nudge, table, f"{name}: {what}")
            if durations:
                base = medians["jpeg" if output.endswith("jpg") else "png"]
                middle = sorted(durations)[len(durations) // 2]
                table.row(f"{name}: {what}", middle, min(durations), size, middle / base)
        try:
            once = persistent_mss(agent.display)
            durations, size = timed(once, TOOL_ROUNDS, painter.nudge), len(once())
            middle = sorted(durations)[len(durations) // 2]
            table.row(f"{name}: python mss, persistent process", middle, min(durations), size, middle / medians["png"])
        except ImportError as error:
            table.skip(f"{name}: python mss, persistent process", str(error))
        xcap(peers, agent, name, medians, table)
        painter.display.close()


def main():
    binary, peers = arguments("screenshots.py HOTDESK_BINARY PEERS_BINARY", 2)
    table = Table("screenshots (ms)", "median", "best", "bytes", "times hotdesk")
    for width, height in ((1280, 720), (1920, 1080)):
        for content in ("flat", "text", "photo"):
            measure(binary, peers, width, height, content, table)
    table.save()


if __name__ == "__main__":
    main()
