#!/usr/bin/env python3
"""Do four clients on four screens at once get as much done as one alone, per core?

usage: crowd.py HOTDESK_BINARY

One client with its screen, its agent and a terminal that receives what it types share one core; then four of each share
as many cores as the machine has, four at most, for a minute. The issue asks that the rate per core stay within 20 %.
That no action lands on another screen is proven by the test display::crowd.
"""

import multiprocessing
import os
import time

from house import Api, UnixConnection
from kit import QUICK, Agent, Topic, arguments

CLIENTS = 4
SPAN, SPAN_ALONE = (3, 3) if QUICK else (60, 15)
LEAST_SHARE = 0.8


def drive(socket, token, screen, key, begin, counts):
    """Acts on one screen: clicks, scrolls, keys, text, by requests and by a list. Tells how many actions were done."""
    api = Api(UnixConnection(socket), token)
    where = f"?screen={screen}"
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
            api("POST", f"/{action}{where}", body)
        done += 6
    counts.put(done)


def rate(binary, cores, clients):
    """Actions a second, all clients together, when everything shares some cores."""
    everywhere = os.sched_getaffinity(0)
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
            # Nothing here names windows to wait for: these screens have no window manager.
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
        os.sched_setaffinity(0, everywhere)


def main():
    (binary,) = arguments("crowd.py HOTDESK_BINARY", 1)
    topic = Topic("four clients on four screens", "cores", "actions/s", "per core", "slowest", "fastest")
    every = sorted(os.sched_getaffinity(0))[:CLIENTS]

    def row(what, cores, clients):
        rates = rate(binary, cores, clients)
        topic.row(what, len(cores), sum(rates), sum(rates) / len(cores), min(rates), max(rates))
        return sum(rates) / len(cores)

    alone = row("one client alone, everything on one core", every[:1], 1)
    if len(every) > 1:
        row("one client alone, on all cores", every, 1)
    crowd = row("four clients", every, CLIENTS)
    topic.goal("four clients, per core, against one alone", 100 * crowd / alone, least=100 * LEAST_SHARE, unit="%")
    topic.keep()


if __name__ == "__main__":
    main()
