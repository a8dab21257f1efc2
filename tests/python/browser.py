#!/usr/bin/env python3
"""Headless Chromium, driven by a JSON command per line on standard input, with a JSON answer per line.

usage: browser.py
"""

import json
import sys
import time

from playwright.sync_api import Error as playwright_error
from playwright.sync_api import sync_playwright

import quiet_network


def main():
    with sync_playwright() as playwright:
        # Chromium has no sandbox as root; the tests open their own pages only.
        program, proxy = quiet_network.start("/usr/bin/chromium")
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", *proxy])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        devtools = page.context.new_cdp_session(page)
        authenticators = []
        violations = []
        page.on("pageerror", lambda error: violations.append(str(error)))
        page.on("console", lambda message: "Content Security Policy" in message.text and violations.append(message.text))
        failed = []
        page.on("requestfailed", lambda request: failed.append(f"{request.url}: {request.failure}"))
        pending = set()
        page.on("request", lambda request: pending.add(request.url))
        page.on("requestfinished", lambda request: pending.discard(request.url))

        def holds(command):
            index = command.get("frame", 0)
            try:
                return len(page.frames) > index and page.frames[index].evaluate(command["script"])
            except playwright_error as error:
                # A page that is loaded again says nothing for a moment.
                if "Execution context was destroyed" not in str(error):
                    raise
                return False

        def perform(command):
            # A page's own scripts run in frame 0, those of a framed page in frame 1.
            frame = lambda: page.frames[command.get("frame", 0)]
            match command["do"]:
                case "open":
                    # A change of the fragment alone would not load the page.
                    page.goto("about:blank")
                    page.goto(command["url"])
                case "wait":
                    # wait_for_function evaluates text in the page, which the page's policy forbids.
                    end = time.monotonic() + command.get("seconds", 30)
                    while not holds(command):
                        if time.monotonic() > end:
                            raise TimeoutError(f"{page.inner_text('body')!r}, violations {violations}, failed {failed}, pending {pending}")
                        page.wait_for_timeout(50)
                case "look":
                    return frame().evaluate(command["script"])
                case "press":
                    page.keyboard.press(command["keys"])
                case "type":
                    page.keyboard.type(command["text"], delay=20)
                case "fill":
                    page.fill(command["where"], command["text"])
                case "click":
                    page.click(command["where"], position=command.get("at"))
                case "add_authenticator":
                    # A security key in software (Chrome DevTools Protocol, domain WebAuthn).
                    devtools.send("WebAuthn.enable")
                    added = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": {
                        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
                        "isUserVerified": True, "automaticPresenceSimulation": True}})
                    authenticators.append(added["authenticatorId"])
                case "set_verified":
                    devtools.send("WebAuthn.setUserVerified", {
                        "authenticatorId": authenticators[-1], "isUserVerified": command["verified"]})
                case "picture":
                    page.screenshot(path=command["file"])
                case "complaints":
                    return violations
            return True

        for line in sys.stdin:
            try:
                answer = {"ok": perform(json.loads(line))}
            except Exception as error:  # the test decides
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)
        browser.close()


main()
