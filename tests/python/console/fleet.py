"""Fleet: live pictures, requests for help, a new computer by the dialog, filters by address, many at once, the keyboard."""

import re
import time

from playwright.sync_api import Page, Route, expect
from scene import DESK, TIMEOUT, Scene, closed, run

# A browser that keeps the notifications, and one of a phone, where no page may show one.
NOTIFIED = """window.notified = [];
window.Notification = class {
    static permission = "granted";
    constructor(title, { body }) { window.notified.push(`${title}: ${body}`); }
    close() {}
};"""
# Live sockets of the page; while `isCut` new ones connect to nowhere. Playwright's own stand-in for sockets throws in the page for
# a message that comes after the page has closed one, and it stands in for all.
SOCKETS = """window.liveSockets = [];
window.isCut = false;
window.WebSocket = class extends WebSocket {
    constructor(address, protocols) {
        const isLive = new URL(address).pathname === "/console/live";
        super(isLive && window.isCut ? new URL("/console/nowhere", address) : address, protocols);
        if (isLive) window.liveSockets.push(this);
    }
};"""
PHONE = """window.Notification = class {
    static permission = "granted";
    constructor() { throw new TypeError("Illegal constructor"); }
};"""


def pictures(scene: Scene) -> None:
    page = scene.page
    page.goto("/console")
    picture = page.locator("main li").filter(has_text="desk").locator("img")
    expect(picture).to_be_visible()
    # Its place has a size before its content has arrived.
    expect(picture).not_to_have_js_property("naturalWidth", 0)
    assert picture.evaluate("it => it.naturalWidth") > 100, "the picture has a screen"
    # It has the pixels of its place, in steps of 32.
    place, wide = picture.evaluate("it => [it.clientWidth * Math.min(devicePixelRatio, 2), it.naturalWidth]")
    assert place - 2 <= wide <= place + 34, f"a picture {wide} pixels wide in a place of {place}"
    # A narrow window has one column, whose pictures are larger.
    page.set_viewport_size({"width": 700, "height": DESK["height"]})
    shown = "document.querySelector('main li img')"
    awaits(page, f"{shown}.clientWidth > 600 && {shown}.naturalWidth >= {shown}.clientWidth - 2")
    page.set_viewport_size(DESK)
    expect(picture).to_have_js_property("naturalWidth", wide)
    before = picture.get_attribute("src")
    scene.api("POST", f"/computers/{scene.computer['id']}/launch", {"argv": ["xterm", "-bg", "#aa0000"], "wait_seconds": 30})
    expect(picture).not_to_have_attribute("src", before)
    # It comes back at once, and its screen has not changed.
    page.get_by_role("searchbox").fill("nothing")
    expect(picture).to_have_count(0)
    page.get_by_role("searchbox").fill("")
    expect(picture).to_be_visible()


def awaits(page: Page, condition: str) -> None:
    """Waits for a condition. `wait_for_function` evaluates texts in the page, which its content security policy refuses."""
    end = time.monotonic() + TIMEOUT / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(100)


def requests(page: Page):
    return page.get_by_role("status").filter(has_text="Agents ask for help")


def helps(scene: Scene) -> None:
    """A request for help is on every page and notified once. One that ends while the page is not connected goes away."""
    control = f"/computers/{scene.computer['id']}/screens/default/control"
    page, phone = scene.other_page(), scene.other_page()
    page.add_init_script(NOTIFIED)
    page.add_init_script(SOCKETS)
    page.goto("/console")
    phone.add_init_script(PHONE)
    phone.goto("/console")
    for each in (page, phone):
        expect(each.get_by_role("link", name="desk", exact=True)).to_be_visible()
    scene.api("POST", control + "/help", {"message": "Which of the two?", "seconds": 600})
    # First this notice, which goes away by itself.
    expect(phone.get_by_text("This browser shows no notifications.")).to_be_visible()
    for each in (page, phone):
        expect(requests(each).get_by_text("Which of the two?")).to_be_visible()
    awaits(page, "window.notified.length === 1")
    scene.shots("fleet-help", page)
    scene.axe(page)
    requests(page).get_by_role("link", name="desk", exact=True).click()
    expect(page).to_have_url(re.compile("/screen[?]screen=default$"))
    # The page of the screen has the request itself; every other page has the notice.
    expect(page.get_by_role("region", name=re.compile("asks for help")).get_by_text("Which of the two?")).to_be_visible()
    expect(requests(page)).to_have_count(0)
    page.get_by_role("link", name="Templates", exact=True).click()
    expect(page.get_by_role("heading", name="Templates", exact=True)).to_be_visible()
    expect(requests(page).get_by_text("Which of the two?")).to_be_visible()
    scene.shots("help-elsewhere", page)
    scene.axe(page)
    page.get_by_role("link", name="Computers", exact=True).click()
    expect(requests(page)).to_be_visible()
    assert page.evaluate("window.notified") == ["desk asks for help: Which of the two?"]

    page.evaluate("window.isCut = true; window.liveSockets.at(-1).close()")
    expect(page.get_by_text("The connection to the service was lost.")).to_be_visible()
    # The page connects again, in vain.
    awaits(page, "window.liveSockets.length > 1")
    scene.api("POST", control + "/answer", {"note": "The first one."})
    expect(requests(phone)).to_have_count(0)
    # The page has heard nothing of the answer.
    expect(requests(page)).to_be_visible()
    page.evaluate("window.isCut = false")
    expect(page.get_by_text("The connection to the service was lost.")).to_be_hidden()
    expect(requests(page)).to_have_count(0)
    for each in (page, phone):
        each.context.close()


def new_computer(scene: Scene, name: str) -> None:
    page = scene.page
    page.get_by_role("button", name="New computer").click()
    dialog = page.get_by_role("dialog", name="New computer")
    expect(page).to_have_url(re.compile("[?&]new="))
    expect(dialog.get_by_role("radio", name="Plain desktop")).to_be_checked()
    dialog.get_by_label("Name", exact=True).fill(name)
    dialog.get_by_role("button", name="Create", exact=True).click()
    card = page.get_by_role("listitem").filter(has_text=name)
    expect(card).to_contain_text("running")
    expect(page.locator("main li").filter(has_text=name).locator("img")).to_be_visible()


def refused(scene: Scene) -> None:
    """A name that is taken: the dialog comes back as it was filled in, and says why."""
    page = scene.page
    page.get_by_role("button", name="New computer").click()
    dialog = page.get_by_role("dialog", name="New computer")
    dialog.get_by_label("Name", exact=True).fill("one")
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("one was not made")
    expect(dialog.get_by_label("Name", exact=True)).to_have_value("one")
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    closed(page)


def choices(scene: Scene) -> None:
    page = scene.page
    page.get_by_role("button", name="List", exact=True).click()
    table = page.get_by_role("table", name="Computers")
    expect(table.get_by_role("row")).to_have_count(4)
    page.get_by_role("searchbox").fill("TWO")
    expect(table.get_by_role("row")).to_have_count(2)
    # All of it is in the address.
    page.reload()
    expect(table.get_by_role("link", name="two", exact=True)).to_be_visible()
    expect(table.get_by_role("row")).to_have_count(2)
    scene.shots("fleet-list")
    # What is there twice counts once, and an unknown order is the usual one.
    page.goto("/console?view=list&search=two&search=one&sort=backwards")
    expect(table.get_by_role("row")).to_have_count(2)
    expect(page.get_by_label("Order")).to_have_value("name")
    page.goto("/console?status=stopped")
    expect(page.get_by_text("No computer fits")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_role("list", name="Computers").get_by_role("listitem")).to_have_count(3)


def many(scene: Scene) -> None:
    page = scene.page
    statuses = lambda: {it["name"]: it["status"] for it in scene.api("GET", "/computers")["computers"]}
    for name in ("one", "two"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    # One answer is held back, so that the progress can be read.
    two = next(it for it in scene.api("GET", "/computers")["computers"] if it["name"] == "two")
    held: list[Route] = []
    stop = f"**/api/computers/{two['id']}/stop"
    page.route(stop, lambda route: held.append(route))
    page.get_by_role("button", name="Stop 2", exact=True).click()
    expect(page.get_by_text("Stopping 1 of 2…")).to_be_visible()
    # First these: without the route the browser may go on with them by itself.
    for route in held:
        route.continue_()
    page.unroute(stop)
    again = page.get_by_role("button", name="Start again")
    expect(again).to_be_visible()
    for name in ("one", "two"):
        expect(page.locator("main li").filter(has_text=name).locator(".status")).to_have_text("stopped")
        expect(page.locator("main li").filter(has_text=name)).to_contain_text(re.compile("Stopped (just now|.* ago)"))
    assert statuses() == {"desk": "running", "one": "stopped", "two": "stopped"}
    again.click()
    for name in ("one", "two"):
        expect(page.locator("main li").filter(has_text=name).locator(".status")).to_have_text("running")
    assert statuses() == {"desk": "running", "one": "running", "two": "running"}

    page.get_by_role("button", name="Actions on two").click()
    page.get_by_role("menuitem", name="Delete…").click()
    question = page.get_by_role("dialog", name="Delete two?")
    question.get_by_role("button", name="Cancel").click()
    expect(question).to_be_hidden()
    page.get_by_role("button", name="Actions on two").click()
    page.get_by_role("menuitem", name="Delete…").click()
    question.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("1 computer deleted.")).to_be_visible()
    assert "two" not in statuses()


def keyboard(scene: Scene) -> None:
    page = scene.page
    page.goto("/console")
    link = page.get_by_role("link", name="desk", exact=True)
    expect(link).to_be_visible()
    for _ in range(40):
        page.keyboard.press("Tab")
        if link.evaluate("it => it === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="desk")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("one")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="one")).to_be_visible()
    # A tab and an operation of a computer, by both names. The title of the window follows.
    page.goto("/console")
    expect(page.get_by_role("link", name="one", exact=True)).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("stop one")
    expect(page.get_by_role("option")).to_have_text(["Stop one Action"])
    page.get_by_role("combobox", name="Page or computer").fill("files one")
    expect(page.get_by_role("option")).to_have_text(["one: Files Page"])
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/files$"))
    expect(page).to_have_title("one: Files · hotdesk")
    page.get_by_role("link", name="Computers", exact=True).click()
    expect(page).to_have_title("Computers · hotdesk")


def deleted_elsewhere(scene: Scene) -> None:
    """A computer that another client deletes goes away by itself."""
    page = scene.page
    page.goto("/console")
    expect(page.get_by_role("link", name="one", exact=True)).to_be_visible()
    one = next(it for it in scene.api("GET", "/computers")["computers"] if it["name"] == "one")
    scene.api("DELETE", f"/computers/{one['id']}")
    expect(page.get_by_role("link", name="one", exact=True)).to_have_count(0)


def flow(scene: Scene) -> None:
    pictures(scene)
    scene.axe()
    helps(scene)
    new_computer(scene, "one")
    new_computer(scene, "two")
    scene.shots("fleet")
    refused(scene)
    choices(scene)
    many(scene)
    keyboard(scene)
    deleted_elsewhere(scene)
    page = scene.page
    page.get_by_role("button", name="New computer").click()
    expect(page.get_by_role("dialog", name="New computer")).to_be_visible()
    scene.axe()
    scene.shots("new-computer")


if __name__ == "__main__":
    run(flow)
