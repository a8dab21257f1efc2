"""Stage of the console's flows: a signed-in Chromium at a real controller.

A flow is a script beside this one. It reads one line of JSON: `url` of the service, `key` of its API, sign-in `links`, the record of
a `computer`, the source of `axe`, the folder for `pictures`, and whether all of them are kept (`all_pictures`).
"""

import json
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright

# Milliseconds that a busy machine may need for anything that a flow waits for.
TIMEOUT = 60_000
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
# Requests that failed of which a flow that fails prints the last.
MOST_FAILED = 20
# Options of axe by the scheme of colours. Another scheme changes colours alone, so only these rules can find something else.
AXE_OPTIONS = {
    "light": "{resultTypes: ['violations']}",
    "dark": "{resultTypes: ['violations'], runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}}",
}


class Scene:
    """What a flow works with."""

    def __init__(self, browser: Browser, given: dict) -> None:
        self._browser = browser
        self._given = given
        self._links = iter(given["links"])
        self.errors: list[str] = []
        self._unfinished: dict[Request, float] = {}
        self._failed: list[str] = []
        self.url: str = given["url"]
        self.key: str = given["key"]
        self.computer: dict = given["computer"]
        self.has_model: bool = given.get("has_model", False)
        self.page = self.new_page()

    def new_page(self) -> Page:
        """A page of another browser, in which nobody is signed in."""
        context = self._browser.new_context(viewport=DESK, accept_downloads=True, base_url=self.url)
        context.set_default_timeout(TIMEOUT)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        self._follow_requests(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self.errors.append(f"{page.url}: {error}"))
        page.on("console", self._note)
        return page

    def _follow_requests(self, context: BrowserContext) -> None:
        """Keeps what a browser asks for and gets no whole answer to, for the report of a failure."""

        def finished(request: Request) -> None:
            self._unfinished.pop(request, None)

        def failed(request: Request) -> None:
            finished(request)
            self._failed = [*self._failed, f"{asked(request)}: {request.failure}"][-MOST_FAILED:]

        context.on("request", lambda request: self._unfinished.update({request: time.monotonic()}))
        context.on("requestfinished", finished)
        context.on("requestfailed", failed)

    def requests(self) -> str:
        """Requests that have no whole answer, with their ages, and the last ones that failed. Streams never have one."""
        now = time.monotonic()
        waiting = [
            f"unfinished for {now - began:.0f} s: {asked(request)}" for request, began in self._unfinished.items()
        ]
        return (
            "\n".join([*waiting, *(f"failed: {text}" for text in self._failed)])
            or "no request is unfinished, none failed"
        )

    def link(self) -> str:
        """A sign-in link that nobody has used."""
        return next(self._links)

    def other_page(self) -> Page:
        """A page of another signed-in browser."""
        page = self.new_page()
        self.sign_in(page)
        return page

    def sign_in(self, page: Page) -> None:
        """Signs a browser in."""
        page.goto(self.link())
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()

    def _note(self, message) -> None:
        # A page that breaks its own content security policy says so only here.
        if message.type == "error" and "Content Security Policy" in message.text:
            self.errors.append(message.text)

    def api(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> dict:
        """A request of another client, with an API key. Raises for a failure."""
        request = urllib.request.Request(self.url + "/api" + path, method=method)
        request.add_header("Authorization", "Bearer " + self.key)
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        data = None
        if body is not None:
            request.add_header("Content-Type", "application/json")
            data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=TIMEOUT / 1000) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read()[:500]!r}") from None
        return json.loads(text) if text else {}

    def bash(self, command: str) -> str:
        """The output of a command in the computer."""
        return self.api("POST", f"/computers/{self.computer['id']}/bash", {"command": command})["output"]

    def shots(self, name: str, page: Page | None = None) -> None:
        """Keeps pictures of a page: as wide as a phone, and if somebody wants to see them light and dark."""
        page = page or self.page
        folder = Path(self._given["pictures"])
        for scheme in ("light", "dark") if self._given["all_pictures"] else ():
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=folder / f"{name}-{scheme}.png", animations="disabled")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(PHONE)
        page.screenshot(path=folder / f"{name}-390.png", animations="disabled")
        too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        page.set_viewport_size(DESK)
        assert too_wide <= 0, f"{name} is {too_wide} pixels wider than a phone"

    def axe(self, page: Page | None = None) -> None:
        """Fails for a serious finding of axe on a page."""
        page = page or self.page
        page.evaluate(self._given["axe"] + "; 0")
        for scheme, options in AXE_OPTIONS.items():
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate(f"axe.run(document, {options})")["violations"]
            serious = [
                f"{it['id']}: {it['help']}: " + "; ".join(node["html"][:200] for node in it["nodes"][:3])
                for it in found
                if it["impact"] in ("serious", "critical")
            ]
            assert not serious, f"{page.url} ({scheme}):\n" + "\n".join(serious)
        page.emulate_media(color_scheme="light")


def asked(request: Request) -> str:
    """Method and address of a request. Queries and fragments are left out: those of sign-ins have secrets."""
    return f"{request.method} {re.split('[?#]', request.url)[0]}"


def closed(page: Page) -> None:
    """Waits until no dialog is open. What is behind one has no role a moment longer, so that it would count as gone."""
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


def run(flow: Callable[[Scene], None]) -> None:
    """Runs a flow. A failure leaves a picture of the page."""
    given = json.loads(sys.stdin.readline())
    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        try:
            scene = Scene(browser, given)
            try:
                scene.sign_in(scene.page)
                flow(scene)
            except BaseException:
                print("at", scene.page.url, scene.errors, file=sys.stderr)
                print(scene.requests(), file=sys.stderr)
                scene.page.screenshot(path=Path(given["pictures"]) / f"failed-{Path(sys.argv[0]).stem}.png")
                raise
            assert not scene.errors, scene.errors
        finally:
            browser.close()
