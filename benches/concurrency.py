#!/usr/bin/env python3
"""Rate of actions per core: four clients on four screens against one client alone.

usage: concurrency.py HOTDESK_BINARY

First, one client, its screen, its agent and a terminal that receives its text share one core. Then four of each share
all cores of the machine, at most four, for a minute. The goal: the rate per core drops by at most 20 %.
The test display::crowd proves that no action lands on another screen.
"""

import multiprocessing
import os
import time

from controller import Api, UnixConnection
from support import QUICK, Agent, Table, arguments

CLIENTS = 4
SPAN, SPAN_ALONE = (3, 3) if QUICK else (60, 15)
LEAST_SHARE = 0.8


def drive(socket, token, screen, key, begin, counts):
    """Acts on one screen with clicks, scrolls, keys, text and a list of actions. Puts the number of actions into `counts`."""
    api = Api(UnixConnection(socket), token)
    query = f"?screen={screen}"
    rounds = [
        ("click", {"x": 60, "y": 60}),
        ("scroll", {"direction": "down", "amount": 2, "x": 60, "y": 60}),
        ("key", {"key": key}),
        ("type", {"text": key * 3}),
        ("actions", [{"action": "click", "x": 80, "y": 60}, {"action": "key", "key": key}]),
    ]
    begin.wait()
    until, done = time.perf_counter() + (SPAN if begin.parties > 2 else SPAN_ALONE), 0
    while time.perf_counter() < until:
        for action, body in rounds:
            api("POST", f"/{action}{query}", body)
        done += 6
    counts.put(done)


def rate(binary, cores, clients):
    """Actions a second of each client, when all programs share `cores`."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        with Agent(binary, 400, 300) as agent:
            screens = ["default"]
            while len(screens) < clients:
                screens.append(agent.api("POST", "/screens", {"width": 400, "height": 300})["id"])
            for screen in screens:
                agent.api("POST", f"/launch?screen={screen}", {
                    "argv": ["xterm", "-geometry", "60x20+0+0", "-e", "sh", "-c", "stty -echo; exec cat >/dev/null"],
                    "wait_seconds": 0})
            # A fixed wait: without a window manager on these screens, no request can wait for a window.
            time.sleep(3)
            begin, counts = multiprocessing.Barrier(clients + 1), multiprocessing.Queue()
            drivers = [multiprocessing.Process(target=drive, daemon=True, args=(
                agent.socket, agent.token, screen, "asdf"[number], begin, counts))
                for number, screen in enumerate(screens)]
            for driver in drivers:
                driver.start()
            begin.wait()
            for driver in drivers:
                driver.join()
            if any(driver.exitcode for driver in drivers):
                raise SystemExit("a client failed")
            done = [counts.get() for _ in drivers]
            return [count / (SPAN if clients > 1 else SPAN_ALONE) for count in done]
    finally:
        os.sched_setaffinity(0, all_cores)


def main():
    (binary,) = arguments("concurrency.py HOTDESK_BINARY", 1)
    table = Table("four clients on four screens", "cores", "actions/s", "per core", "slowest", "fastest")
    cores = sorted(os.sched_getaffinity(0))[:CLIENTS]

    def row(label, cores, clients):
        rates = rate(binary, cores, clients)
        table.row(label, len(cores), sum(rates), sum(rates) / len(cores), min(rates), max(rates))
        return sum(rates) / len(cores)

    alone = row("one client alone, everything on one core", cores[:1], 1)
    if len(cores) > 1:
        row("one client alone, on all cores", cores, 1)
    together = row("four clients", cores, CLIENTS)
    table.goal("four clients, per core, against one alone", 100 * together / alone, least=100 * LEAST_SHARE, unit="%")
    table.save()


if __name__ == "__main__":
    main()
