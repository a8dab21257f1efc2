#!/usr/bin/env python3
"""How much memory do the agent and its X servers take, idle and busy, and how soon is a new screen there?

usage: room.py HOTDESK_BINARY

Memory is PSS: shared pages count by their share.
"""

import os

from kit import Agent, Painter, Topic, arguments, full_of_text, timed

SCREENS = 5
# What the issue asks for: milliseconds and megabytes of a new screen.
SOON_GOAL, SMALL_GOAL = 400, 40


def pss(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024


def servers(agent):
    """Process ids of the agent's X servers."""
    with open(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children") as file:
        children = file.read().split()
    for task in os.listdir(f"/proc/{agent.process.pid}/task"):
        with open(f"/proc/{agent.process.pid}/task/{task}/children") as file:
            children += file.read().split()
    found = []
    for pid in sorted(set(children), key=int):
        with open(f"/proc/{pid}/comm") as file:
            if file.read().strip() in ("Xvnc", "Xtigervnc", "Xvfb"):
                found.append(int(pid))
    return found


def main():
    (binary,) = arguments("room.py HOTDESK_BINARY", 1)
    memory = Topic("memory (MB, PSS)", "agent", "X server", "more/screen")
    with Agent(binary, 1280, 720) as agent:
        alone = pss(agent.process.pid)
        memory.row("idle, one screen of 720p", alone, pss(servers(agent)[0]), None)
        full_of_text(agent, 1280, 720)
        painter = Painter(agent.display)
        for form in ("png", "jpeg", "webp"):
            timed(lambda: agent.api.raw("GET", f"/screenshot?response_format=binary&format={form}"), 50, painter.nudge)
        timed(lambda: agent.api("POST", "/click", {"x": 5, "y": 5}), 500)
        busy = pss(agent.process.pid)
        memory.row("busy: full of text, 150 pictures, 500 clicks", busy, pss(servers(agent)[0]), None)
        painter.display.close()

        screens = Topic("new screen (ms)", "median", "best")
        made = []

        def create():
            made.append(agent.api("POST", "/screens", {"width": 1280, "height": 720})["id"])

        def picture():
            create()
            agent.api.raw("GET", f"/screenshot?response_format=binary&screen={made[-1]}")

        def remove():
            for screen in made:
                agent.api.raw("DELETE", f"/screens/{screen}")
            made.clear()

        for what, work in (("bare, until it is ready", create), ("bare, until its first picture", picture)):
            spans = timed(work, SCREENS, remove)
            screens.goal(f"new screen, {what}", screens.spans(what, spans, min(spans)), most=SOON_GOAL)
        remove()
        before = pss(agent.process.pid) + sum(pss(pid) for pid in servers(agent))
        for _ in range(3):
            create()
        after = pss(agent.process.pid) + sum(pss(pid) for pid in servers(agent))
        memory.row("four screens, idle", pss(agent.process.pid), pss(servers(agent)[-1]), (after - before) / 3)
        memory.goal("each new screen", (after - before) / 3, most=SMALL_GOAL, unit="MB")
        screens.keep()
    memory.keep()


if __name__ == "__main__":
    main()
