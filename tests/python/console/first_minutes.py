"""The first five minutes (full image): from the sign-in link to an agent at work, with a stop-watch."""

import time

from playwright.sync_api import expect
from scene import Scene, run
from screen import is_given_to_an_agent, shown, until


def flow(scene: Scene) -> None:
    page, link, began = scene.new_page(), scene.link(), time.monotonic()
    scene.page = page

    def mark(what: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {what}", flush=True)

    # The link that `make run` and `hotdesk up` print.
    page.goto(link)
    page.wait_for_url("**/console")
    mark("the link has signed in")
    expect(page.locator("main li").filter(has_text="desk").locator("img")).to_be_visible()
    mark("a computer is seen live")
    page.get_by_role("button", name="New computer").click()
    dialog = page.get_by_role("dialog", name="New computer")
    dialog.get_by_label("Name", exact=True).fill("first")
    dialog.get_by_role("button", name="Create", exact=True).click()
    card = page.locator("main li").filter(has_text="first")
    expect(card).to_be_visible()
    mark("the new computer appears")
    expect(card.locator("img")).to_be_visible()
    mark("it shows its screen")
    scene.computer = next(it for it in scene.api("GET", "/computers")["computers"] if it["name"] == "first")
    page.get_by_role("link", name="first", exact=True).click()
    shown(page)
    mark("its screen is live")

    page.locator("hotdesk-screen canvas").click(position={"x": 300, "y": 200})
    expect(page.get_by_text("You are in control")).to_be_visible()
    page.get_by_role("button", name="Clipboard", exact=True).click()
    clipboard = page.get_by_role("dialog", name="Clipboard")
    clipboard.get_by_label("Text", exact=True).fill("pasted")
    clipboard.get_by_role("button", name="Paste into the computer").click()
    path = f"/computers/{scene.computer['id']}/clipboard"
    until("the pasted text", lambda: scene.api("GET", path).get("text") == "pasted")
    mark("text is pasted in")
    data = page.evaluate_handle(
        """() => {
            const data = new DataTransfer();
            data.items.add(new File(["dropped"], "dropped.txt", { type: "text/plain" }));
            return data;
        }"""
    )
    page.locator("hotdesk-screen").dispatch_event("drop", {"dataTransfer": data})
    expect(page.get_by_text("dropped.txt is on the desktop.")).to_be_visible()
    assert scene.bash("cat /root/Desktop/dropped.txt") == "dropped"
    mark("a dropped file is on its desktop")
    page.get_by_role("button", name="Hand back", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Hand back", exact=True).click()
    expect(page.get_by_text("Nobody is in control")).to_be_visible()

    page.get_by_role("tab", name="Terminal").click()
    expect(page.locator(".xterm-rows")).to_contain_text("#")
    page.keyboard.type("touch /root/shell\n")
    until("the shell", lambda: "shell" in scene.bash("ls /root").split())
    mark("the terminal is a shell")
    is_given_to_an_agent(scene)
    mark("an agent works with a key that was made here")


if __name__ == "__main__":
    run(flow)
