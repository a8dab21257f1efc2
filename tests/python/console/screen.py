"""The live screen (full image): a person works on it, takes it from an agent, hands it back, and gives it away."""

import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from playwright.sync_api import Page, expect
from scene import Scene, run

# Seconds in which what a person did arrives in the computer, on a busy machine.
TIMEOUT = 60
# Larger than one piece of an upload, which has at most 2 MiB.
LARGE = 3 * 1024 * 1024


def until(what: str, check: Callable[[], bool]) -> None:
    """Waits for a state of the computer."""
    end = time.monotonic() + TIMEOUT
    while not check():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.2)


def desk(scene: Scene) -> str:
    return f"/computers/{scene.computer['id']}"


def control(scene: Scene) -> dict:
    return scene.api("GET", desk(scene) + "/screens/default/control")


def refused(scene: Scene, path: str, body: dict) -> str:
    """Message of a request of the agent that must be refused because somebody else holds the screen."""
    try:
        scene.api("POST", desk(scene) + path, body)
    except AssertionError as error:
        assert "409" in str(error) and "control_held" in str(error), error
        return str(error)
    raise AssertionError(f"{path} was not refused")


def shown(page: Page) -> None:
    """Waits until the canvas shows more than one colour."""
    expect(page.locator("hotdesk-screen[state=connected]")).to_be_visible()
    page.wait_for_function(
        """() => {
            const canvas = document.querySelector("hotdesk-screen")?.shadowRoot?.querySelector("canvas");
            if (!canvas || canvas.width === 0 || canvas.height === 0) return false;
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const colours = new Set();
            for (let at = 0; at < data.length; at += 4 * 101) colours.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
            return colours.size > 1;
        }"""
    )


def hand_back(page: Page, note: str) -> None:
    page.get_by_role("button", name="Hand back", exact=True).click()
    dialog = page.get_by_role("dialog", name="Hand the screen back")
    dialog.get_by_label("Note for the agent").fill(note)
    dialog.get_by_role("button", name="Hand back", exact=True).click()
    expect(dialog).to_be_hidden()


def works_by_mouse_and_keyboard(scene: Scene) -> None:
    page = scene.page
    page.goto("/console/computers/" + scene.computer["id"])
    shown(page)
    expect(page.get_by_text("Nobody is in control")).to_be_visible()
    argv = ["xterm", "-geometry", "80x20+200+150"]
    window = scene.api("POST", desk(scene) + "/launch", {"argv": argv, "wait_seconds": 60})["window"]
    assert window, "the terminal has a window"

    canvas = page.locator("hotdesk-screen canvas")
    box = canvas.bounding_box()
    assert box, "the canvas has a place"
    width = int(scene.computer["resolution"].split("x")[0])
    scale = box["width"] / width
    middle = {"x": (window["x"] + window["width"] / 2) * scale, "y": (window["y"] + window["height"] / 2) * scale}
    canvas.click(position=middle)
    expect(page.get_by_text("You are in control")).to_be_visible()
    page.keyboard.type("echo Typed-by-a-person > /root/typed\n")
    until("what was typed", lambda: scene.bash("cat /root/typed 2>/dev/null || true").strip() == "Typed-by-a-person")
    is_told(scene, typed=len("echo Typed-by-a-person > /root/typed"))

    # The keyboard leaves the screen by Ctrl, Alt and Shift.
    page.keyboard.press("Control+Alt+Shift")
    expect(page.get_by_role("button", name="Hand back", exact=True)).to_be_focused()
    scene.axe()
    scene.shots("screen")


def is_told(scene: Scene, typed: int) -> None:
    """The timeline says that the person typed, and how much, but not what."""
    def entries() -> list[dict]:
        return scene.api("GET", desk(scene) + "/timeline?by=person&limit=200")["entries"]

    def keys() -> list[str]:
        return [key for entry in entries() for key in entry.get("keys", [])]

    until("the typing is told", lambda: sum(entry.get("characters", 0) for entry in entries()) == typed)
    # It came last, and may be in an entry of its own.
    until("the key Return is told", lambda: "Return" in keys())
    assert all(entry["source"] == "vnc" for entry in entries()), entries()
    assert all(len(key) > 1 for key in keys()), keys()
    other = scene.page.context.new_page()
    other.goto(f"/console{desk(scene)}/activity?by=person")
    told = other.get_by_role("list", name="Actions, newest first").get_by_role("listitem").filter(has_text="typed")
    expect(told.first).to_contain_text(re.compile(r"typed \d+ characters?"))
    expect(told.first).to_contain_text("in a viewer")
    other.close()


def takes_over(scene: Scene) -> None:
    page = scene.page
    click = {"x": 10, "y": 10}
    holder = control(scene)["holder"]
    assert holder["kind"] == "person", holder
    refused(scene, "/click", click)
    hand_back(page, "The terminal is open.")
    expect(page.get_by_text("Nobody is in control")).to_be_visible()
    told = control(scene)
    assert told.get("holder") is None and told["last_hand_back"]["note"] == "The terminal is open.", told
    scene.api("POST", desk(scene) + "/click", click)

    # An agent holds the screen: the person sees it, and nothing of theirs reaches the screen.
    scene.api("POST", desk(scene) + "/screens/default/control", {"seconds": 600, "note": "I fill in a form"})
    expect(page.get_by_role("status").filter(has_text=re.compile("is working"))).to_be_visible()
    expect(page.get_by_text("I fill in a form")).to_be_visible()
    expect(page.locator("hotdesk-screen[view-only]")).to_be_visible()
    scene.api("POST", desk(scene) + "/click", click)
    scene.shots("screen-agent")

    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.get_by_role("button", name="Take control", exact=True).click()
    expect(page.get_by_text("You are in control")).to_be_visible()
    expect(page.locator("hotdesk-screen:not([view-only])")).to_be_visible()
    held = control(scene)
    assert held["holder"]["kind"] == "person" and held["note"] == "A person takes the screen over.", held
    # Nobody has handed it back in between.
    assert held["last_hand_back"]["note"] == "The terminal is open.", held
    forced = [it for it in requests if "force=" in it or it.endswith("/hand_back")]
    assert len(forced) == 1 and forced[0].endswith("/control?force=true"), forced
    assert "person" in refused(scene, "/click", click), "the agent is told who holds the screen"
    refused(scene, "/screens/default/control", {"seconds": 60})

    hand_back(page, "Signed in. Go on with the order.")
    told = control(scene)
    assert told.get("holder") is None and told["last_hand_back"]["note"] == "Signed in. Go on with the order.", told
    scene.api("POST", desk(scene) + "/click", click)

    # Who only watches takes nothing.
    page.get_by_role("button", name="Watch only").click()
    expect(page.locator("hotdesk-screen[view-only]")).to_be_visible()
    page.locator("hotdesk-screen canvas").click(position={"x": 5, "y": 5})
    assert control(scene).get("holder") is None
    page.get_by_role("button", name="Watch only").click()
    expect(page.locator("hotdesk-screen:not([view-only])")).to_be_visible()


def helps(scene: Scene) -> None:
    page = scene.page
    question = {"message": "The page asks for a code from the phone.", "seconds": 600}
    scene.api("POST", desk(scene) + "/screens/default/control/help", question)
    asked = page.get_by_role("region", name=re.compile("asks for help"))
    expect(asked.get_by_text(question["message"])).to_be_visible()
    scene.shots("screen-help")
    asked.get_by_label("Answer").fill("The code is 424242.")
    asked.get_by_role("button", name="Send the answer").click()
    expect(asked).to_be_hidden()
    told = control(scene)
    assert told.get("help") is None and told["last_hand_back"]["note"] == "The code is 424242.", told


def opens_the_chat(scene: Scene) -> None:
    """The chat beside the screen, by mouse, keyboard and address. tests/python/console/chat.py asks a model by it."""
    page = scene.page
    button = page.get_by_role("button", name="Chat", exact=True)
    chat = page.get_by_role("complementary", name="Chat")
    button.click()
    expect(page).to_have_url(re.compile("[?&]chat=new"))
    expect(chat.get_by_label("What should the model do?")).to_be_visible()
    expect(chat.get_by_text("No model has worked on this computer yet.")).to_be_visible()
    expect(chat.get_by_role("heading", name="Chat", exact=True)).to_be_focused()
    scene.axe()
    scene.shots("screen-chat")
    page.keyboard.press("Escape")
    expect(chat).to_have_count(0)
    expect(button).to_be_focused()
    expect(page).not_to_have_url(re.compile("chat="))


def programs(scene: Scene) -> str:
    """Arguments of all programs in the computer."""
    return scene.bash("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")


def copies_and_pastes(scene: Scene) -> None:
    page = scene.page
    clipboard = desk(scene) + "/clipboard"
    page.get_by_role("button", name="Clipboard", exact=True).click()
    dialog = page.get_by_role("dialog", name="Clipboard")
    dialog.get_by_label("Text", exact=True).fill("Grüße from the page")
    dialog.get_by_role("button", name="Paste into the computer").click()
    expect(dialog).to_be_hidden()
    until("the pasted text", lambda: scene.api("GET", clipboard)["text"] == "Grüße from the page")

    scene.api("PUT", clipboard, {"text": "Copied in the computer"})
    page.get_by_role("button", name="Clipboard", exact=True).click()
    expect(dialog.get_by_label("Text", exact=True)).to_have_value("Copied in the computer")
    dialog.get_by_role("button", name="Copy to this device").click()
    expect(dialog).to_be_hidden()
    assert page.evaluate("navigator.clipboard.readText()") == "Copied in the computer"

    # On-screen keys, as on a phone. Clicks of the agent took the computer's keyboard from the terminal.
    windows = scene.api("GET", desk(scene) + "/windows")["windows"]
    terminal = next(it["id"] for it in windows if it["class"] == "XTerm")
    scene.api("POST", f"{desk(scene)}/windows/{terminal}/focus")
    page.get_by_role("button", name="Keys", exact=True).click()
    keys = page.get_by_role("region", name="Keys")
    keys.get_by_label("Type here").fill("touch /root/keyed")
    keys.get_by_role("button", name="Enter", exact=True).click()
    until("the keys of the page", lambda: scene.bash("ls /root").split().count("keyed") == 1)
    keys.get_by_label("Type here").fill("sleep 600 && touch /root/waited")
    keys.get_by_role("button", name="Enter", exact=True).click()
    until("a program that waits", lambda: "sleep 600" in programs(scene))
    keys.get_by_role("button", name="Ctrl", exact=True).click()
    keys.get_by_label("Type here").fill("c")
    until("Ctrl+C", lambda: "sleep 600" not in programs(scene))
    page.get_by_role("button", name="Keys", exact=True).click()


def drops_files(scene: Scene) -> None:
    page = scene.page
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

    # What is there is replaced only when the person says so.
    page.locator("hotdesk-screen").dispatch_event("drop", {"dataTransfer": data})
    expect(page.get_by_text("dropped.txt is on the desktop already")).to_be_visible()
    scene.bash("echo changed > /root/Desktop/dropped.txt")
    page.get_by_role("button", name="Replace it").click()
    until("the replaced file", lambda: scene.bash("cat /root/Desktop/dropped.txt") == "dropped")

    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Send files to its desktop").click()
    large = {"name": "large.bin", "mimeType": "application/octet-stream", "buffer": b"h" * LARGE}
    chooser.value.set_files([large])
    expect(page.get_by_text("large.bin is on the desktop.")).to_be_visible()
    assert scene.bash("stat -c %s /root/Desktop/large.bin").strip() == str(LARGE)

    with page.expect_download() as picture:
        page.get_by_role("button", name="Save picture").click()
    with open(picture.value.path(), "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"


def has_several_screens(scene: Scene) -> None:
    page = scene.page
    page.get_by_role("button", name="Add a screen").click()
    expect(page).to_have_url(re.compile(r"[?&]screen=screen-100"))
    screens = page.get_by_role("group", name="Screens")
    expect(screens.get_by_role("button", name="Screen 100")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("hotdesk-screen[state=connected]")).to_be_visible()
    assert len(scene.api("GET", desk(scene) + "/screens")["screens"]) == 2
    page.get_by_role("button", name="More about this screen").click()
    page.get_by_role("menuitem", name="Remove this screen").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove the screen").click()
    expect(page).not_to_have_url(re.compile("screen=screen-100"))
    until("one screen", lambda: len(scene.api("GET", desk(scene) + "/screens")["screens"]) == 1)
    shown(page)


def is_seen_on_the_viewer_page(scene: Scene) -> None:
    """The page without the console: it asks for the password, and a link with a ticket opens the screen."""
    page = scene.new_page()
    page.goto(f"/desktops/{scene.computer['id']}/view")
    expect(page.get_by_label("Password of the computer")).to_be_visible()
    scene.axe(page)
    scene.shots("viewer-password", page)
    link = scene.api("POST", desk(scene) + "/stream-tickets", {"mode": "control"})["url"]
    # Another page first: the address differs in its fragment alone.
    page.goto("about:blank")
    page.goto(link)
    expect(page.get_by_text("Connected", exact=True)).to_be_visible()
    scene.axe(page)
    page.get_by_role("button", name="Clipboard", exact=True).click()
    expect(page.get_by_label("Text on the desktop's clipboard")).to_be_visible()
    scene.axe(page)
    scene.shots("viewer", page)
    page.context.close()


def stops_and_starts(scene: Scene) -> None:
    page = scene.page
    panel = page.get_by_role("tabpanel", name="Screen")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("desk stops.")).to_be_visible()
    expect(panel.get_by_role("heading", name="desk is stopped")).to_be_visible()
    assert scene.api("GET", desk(scene))["status"] == "stopped"
    scene.axe()
    scene.shots("screen-stopped")
    panel.get_by_role("button", name="Start", exact=True).click()
    shown(page)
    assert scene.api("GET", desk(scene))["status"] == "running"

    # The notice of the first stop stays, and its button would start the computer before it has stopped.
    page.locator(".notice").filter(has_text="desk stops.").get_by_role("button", name="Close").click()
    again = page.get_by_role("button", name="Start again")
    expect(again).to_have_count(0)
    page.get_by_role("button", name="Stop", exact=True).click()
    again.click()
    until("running again", lambda: scene.api("GET", desk(scene))["status"] == "running")
    shown(page)

    page.get_by_role("button", name="More about desk").click()
    page.get_by_role("menuitem", name="Clone…").click()
    dialog = page.get_by_role("dialog", name="Clone desk")
    dialog.get_by_label("Name").fill("copy of desk")
    dialog.get_by_role("button", name="Clone it").click()
    page.get_by_role("button", name="Open it").click()
    expect(page.get_by_role("heading", name="copy of desk")).to_be_visible()
    page.get_by_role("button", name="More about copy of desk").click()
    page.get_by_role("menuitem", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("copy of desk is deleted.")).to_be_visible()
    names = [it["name"] for it in scene.api("GET", "/computers")["computers"]]
    assert names == ["desk"], names


def status_with(scene: Scene, key: str, path: str) -> int:
    """Status of a request with a key."""
    request = urllib.request.Request(f"{scene.url}/api{path}", headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def is_given_to_an_agent(scene: Scene) -> None:
    page = scene.page
    page.goto(f"/console/computers/{scene.computer['id']}/connect")
    page.get_by_role("button", name="Make a key", exact=True).click()
    key = page.get_by_role("textbox", name="API key").input_value()
    assert key.startswith("sk_live_"), "the page shows the key"
    assert status_with(scene, key, desk(scene)) == 200, "the key works"
    assert status_with(scene, key, "/user/subscription") == 403, "the key is of the workspace alone"
    for kind in ("Python", "TypeScript", "MCP", "OpenAI-compatible chat", "curl"):
        page.get_by_role("button", name=kind, exact=True).click()
        lines = page.get_by_role("region", name=f"Lines for {kind}")
        expect(lines).to_contain_text(key)
        expect(lines).to_contain_text(scene.url)
        if kind != "MCP":
            expect(lines).to_contain_text(scene.computer["id"])
    page.get_by_role("button", name="Copy the lines").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()

    # The lines are true, and what they do appears beside them.
    lines = page.evaluate("navigator.clipboard.readText()")
    with tempfile.TemporaryDirectory() as folder:
        command = ["bash", "-ec", lines]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        assert ran.returncode == 0 and "Linux" in ran.stdout, (ran.stdout, ran.stderr.replace(key, "KEY"))
    actions = page.get_by_role("list", name="Newest actions")
    first = actions.get_by_role("listitem").filter(has_text="click at 640, 360").first
    expect(first).to_contain_text(f"Agent of {scene.computer['name']}")
    expect(first.get_by_role("img")).to_be_visible()
    scene.axe()
    scene.shots("connect")
    page.reload()
    expect(page.get_by_role("button", name="Make a key", exact=True)).to_be_visible()
    assert key not in page.content(), "the key is shown once"


def flow(scene: Scene) -> None:
    works_by_mouse_and_keyboard(scene)
    takes_over(scene)
    helps(scene)
    opens_the_chat(scene)
    copies_and_pastes(scene)
    drops_files(scene)
    has_several_screens(scene)
    is_seen_on_the_viewer_page(scene)
    stops_and_starts(scene)
    is_given_to_an_agent(scene)


if __name__ == "__main__":
    run(flow)
