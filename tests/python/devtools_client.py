#!/usr/bin/env python3
"""Drives the Chromium of a computer through a port of it, as a program outside does; prints what it saw as JSON.

usage: devtools_client.py URL [FIELD:VALUE]
"""

import json
import sys

from playwright.sync_api import sync_playwright

PAGE = "<title>before</title><button onclick=\"document.title = 'after'\">Push</button>"


def main():
    url, *fields = sys.argv[1:]
    headers = dict(field.split(":", 1) for field in fields)
    with sync_playwright() as playwright:
        browser = playwright.chromium.connect_over_cdp(url, headers=headers)
        page = browser.contexts[0].new_page()
        page.set_content(PAGE)
        page.get_by_role("button", name="Push").click()
        print(json.dumps({
            "title": page.title(),
            "agent": page.evaluate("navigator.userAgent"),
            "picture": page.screenshot()[:4].hex(),
        }))
        page.close()
        browser.close()


if __name__ == "__main__":
    main()
