#!/usr/bin/env python3
"""Memory of the agent and its X servers, idle and busy; time until a new screen is ready.

usage: memory.py HOTDESK_BINARY

Memory is PSS: each process counts its share of shared pages.
"""

import os

from support import Agent, Painter, Table, arguments, fill_with_text, timed

SCREENS = 5
# Goals of a new screen: milliseconds and megabytes.
READY_GOAL, MEMORY_GOAL = 400, 40


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
    (binary,) = arguments("memory.py HOTDESK_BINARY", 1)
    memory = Table("memory (MB, PSS)", "agent", "X server", "more/screen")
    with Agent(binary, 1280, 720) as agent:
        alone = pss(agent.process.pid)
        memory.row("idle, one screen of 720p", alone, pss(servers(agent)[0]), None)
        fill_with_text(agent, 1280, 720)
        painter = Painter(agent.display)
        for format in ("png", "jpeg", "webp"):
            timed(lambda: agent.api.raw("GET", f"/screenshot?response_format=binary&format={format}"), 50, painter.nudge)
        timed(lambda: agent.api("POST", "/click", {"x": 5, "y": 5}), 500)
        busy = pss(agent.process.pid)
        memory.row("busy: full of text, 150 screenshots, 500 clicks", busy, pss(servers(agent)[0]), None)
        painter.display.close()

        screens = Table("new screen (ms)", "median", "best")
        created = []

        def create():
            created.append(agent.api("POST", "/screens", {"width": 1280, "height": 720})["id"])

        def create_and_capture():
            create()
            agent.api.raw("GET", f"/screenshot?response_format=binary&screen={created[-1]}")

        def remove():
            for screen in created:
                agent.api.raw("DELETE", f"/screens/{screen}")
            created.clear()

        for what, work in (("no session, until it is ready", create), ("no session, until its first screenshot", create_and_capture)):
            durations = timed(work, SCREENS, remove)
            screens.goal(f"new screen, {what}", screens.durations(what, durations, min(durations)), most=READY_GOAL)
        remove()
        before = pss(agent.process.pid) + sum(pss(pid) for pid in servers(agent))
        for _ in range(3):
            create()
        after = pss(agent.process.pid) + sum(pss(pid) for pid in servers(agent))
        memory.row("four screens, idle", pss(agent.process.pid), pss(servers(agent)[-1]), (after - before) / 3)
        memory.goal("each new screen", (after - before) / 3, most=MEMORY_GOAL, unit="MB")
        screens.save()
    memory.save()


if __name__ == "__main__":
    main()
