#!/usr/bin/env python3
"""A headless Chromium: a line of JSON tells what to do, a line of JSON tells what came of it.

usage: browser.py
"""

import json
import sys
import time

from playwright.sync_api import sync_playwright


def main():
    with sync_playwright() as playwright:
        # As root there is no sandbox; the pages are our own.
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        complaints = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: "Content Security Policy" in said.text and complaints.append(said.text))
        page.on("requestfailed", lambda request: complaints.append(f"{request.url}: {request.failure}"))
        pending = set()
        page.on("request", lambda request: pending.add(request.url))
        page.on("requestfinished", lambda request: pending.discard(request.url))

        def do(order):
            match order["do"]:
                case "open":
                    # A new fragment alone would load nothing.
                    page.goto("about:blank")
                    page.goto(order["url"])
                case "wait":
                    # Not by wait_for_function: it evaluates text in the page, which the page's policy forbids.
                    end = time.monotonic() + order.get("seconds", 30)
                    while not page.evaluate(order["script"]):
                        if time.monotonic() > end:
                            raise TimeoutError(f"{page.inner_text('body')!r}, complaints {complaints}, under way {pending}")
                        page.wait_for_timeout(50)
                case "look":
                    return page.evaluate(order["script"])
                case "press":
                    page.keyboard.press(order["keys"])
                case "type":
                    page.keyboard.type(order["text"], delay=20)
                case "fill":
                    page.fill(order["where"], order["text"])
                case "click":
                    page.click(order["where"], position=order.get("at"))
                case "picture":
                    page.screenshot(path=order["file"])
                case "complaints":
                    return complaints
            return True

        for line in sys.stdin:
            try:
                answer = {"ok": do(json.loads(line))}
            except Exception as error:  # the test judges
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)
        browser.close()


main()
