#!/usr/bin/env python3
"""Cost of the console's page with a fleet in view: the controller's and the browser's share of a core, and the first page.

usage: console.py HOTDESK_BINARY IMAGE_FOLDER

A terminal prints the time every second on each screen of a running computer, so each thumbnail is fetched once a second.
"""

import re
import time

import psutil
from playwright.sync_api import sync_playwright

from controller import RUNC, Controller
from support import QUICK, Table, arguments

LIMITS = "\n[limits]\nmax_computers = 1000\n"
# Computers in the grid, and those of them that run and are in view.
FLEET, RUNNING = (12, 4) if QUICK else (200, 50)
SECONDS = 5 if QUICK else 60
# Seconds until the page of a fleet is complete.
READY = 60
# Large enough that all running computers are in view.
WINDOW = {"width": 1920, "height": 4000}
# Goals: per cent of a core, and milliseconds.
CONTROLLER_GOAL, BROWSER_GOAL, PAGE_GOAL = 5, 20, 1000
CLOCK = {"argv": ["xterm", "-fs", "20", "-e", "sh", "-c", "while sleep 1; do date; done"], "wait_seconds": 30}
# Counts the thumbnails that the page shows.
COUNT = """() => {
    window.thumbnails = 0;
    const observer = new MutationObserver(all => { window.thumbnails += all.length; });
    observer.observe(document.querySelector("main"), { subtree: true, attributes: true, attributeFilter: ["src"] });
}"""
COUNTED = "window.thumbnails"


def seconds_of(processes):
    """CPU seconds of processes so far."""
    total = 0
    for process in processes:
        try:
            times = process.cpu_times()
            total += times.user + times.system
        except psutil.NoSuchProcess:
            pass
    return total


def main():
    binary, image = arguments("console.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    with Controller(binary, image, RUNC + LIMITS) as controller, sync_playwright() as playwright:
        api = controller.api
        workspace = api("POST", "/workspaces", {"name": "fleet"})["id"]
        for number in range(FLEET):
            made = api("POST", "/computers", {"workspace_id": workspace, "name": f"desk-{number:03}"})
            if number < RUNNING:
                api("POST", f"/computers/{made['id']}/launch", CLOCK)
            else:
                api("POST", f"/computers/{made['id']}/stop")
        link = api("POST", "/user/sign-in-links", {})["url"]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_context(viewport=WINDOW).new_page()
        page.goto(link)
        page.get_by_role("button").first.click()
        page.wait_for_url(lambda url: "/sign-in" not in url)
        address = f"http://{controller.host}:{controller.port}/console?status=running"
        page.goto(address)
        table = Table("console (per cent of a core)", "controller", "browser", "thumbnails/s")
        # Not wait_for_function: the page's own policy forbids its `eval`.
        page.locator("main li img").nth(RUNNING - 1).wait_for(timeout=READY * 1000)
        page.evaluate(COUNT)
        served = psutil.Process(controller.server.pid)
        chromium = [it for it in psutil.Process().children(recursive=True) if it.pid != served.pid and "chrom" in it.name()]
        before = seconds_of([served]), seconds_of(chromium), page.evaluate(COUNTED)
        time.sleep(SECONDS)
        after = seconds_of([served]), seconds_of(chromium), page.evaluate(COUNTED)
        shares = [(now - then) / SECONDS * 100 for now, then in zip(after[:2], before[:2])]
        label = f"{RUNNING} computers in view, a change a second each"
        table.row(label, *shares, (after[2] - before[2]) / SECONDS)
        table.goal(label + ", the controller", shares[0], most=CONTROLLER_GOAL, unit="%")
        table.goal(label + ", the browser", shares[1], most=BROWSER_GOAL, unit="%")
        table.save()

        first = Table("console, first page (ms)", "first card", "whole grid")
        page.goto("about:blank")
        began = time.perf_counter()
        page.goto(address.split("?")[0])
        times = []
        for number in (0, FLEET - 1):
            page.get_by_role("link", name=re.compile(f"desk-{number:03}")).first.wait_for()
            times.append((time.perf_counter() - began) * 1000)
        first.row(f"grid of {FLEET} computers", *times)
        first.goal("first page", times[-1], most=PAGE_GOAL)
        first.save()
        browser.close()


if __name__ == "__main__":
    main()
