"""Video of the live screen (full image): chosen by a person or by what changes, the same picture, input by VNC, back to VNC and its
continuous updates."""

import time

from playwright.sync_api import Page, WebSocket, expect
from scene import Scene, run

VIDEO = "canvas.screen-video"
# Seconds in which what a person did arrives in the computer, on a busy machine.
TIMEOUT = 60
# A terminal that fills the screen and scrolls without end.
SCROLLING = "while :; do head -c 3000 /dev/urandom | base64 -w 150; sleep 0.03; done"

# Type of the message that enables or disables continuous updates, an extension of RFB that Xvnc and noVNC have.
CONTINUOUS = 150

# Paints a page of one colour: a window above all others in the whole screen.
PAINT = """
import sys, time
from Xlib import display
link = display.Display()
screen = link.screen()
window = screen.root.create_window(0, 0, screen.width_in_pixels, screen.height_in_pixels, 0, screen.root_depth,
                                   override_redirect=1, background_pixel=int(sys.argv[1], 16))
window.map()
link.sync()
time.sleep(3600)
"""

# The colour in the middle of the video's canvas, as text.
MIDDLE = """() => {
    const canvas = document.querySelector("canvas.screen-video");
    const [red, green, blue] = canvas.getContext("2d").getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data;
    return [red, green, blue];
}"""


def desk(scene: Scene) -> str:
    return f"/computers/{scene.computer['id']}"


def choose(page: Page, quality: str) -> None:
    page.get_by_label("Quality of the picture").select_option(quality)


def paints(scene: Scene, colour: str) -> dict:
    return scene.api("POST", desk(scene) + "/processes", {"argv": ["python3", "-c", PAINT, colour]})


def ends(scene: Scene, process: dict) -> None:
    scene.api("DELETE", f"{desk(scene)}/processes/{process['id']}")


def shows(page: Page, what: str, fits) -> None:
    """Waits until the middle of the video has a colour."""
    end = time.monotonic() + TIMEOUT
    while not fits(*(seen := page.evaluate(MIDDLE))):
        assert time.monotonic() < end, f"the video does not become {what}: {seen}"
        page.wait_for_timeout(100)


class Updates:
    """How VNC asks for updates: continuously, or one after another."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._switches: list[bool] = []
        page.on("websocket", self._listen)

    def _listen(self, socket: WebSocket) -> None:
        if "/ws/websockify" in socket.url:
            socket.on("framesent", self._note)

    def _note(self, payload: bytes | str) -> None:
        if isinstance(payload, bytes) and len(payload) == 10 and payload[0] == CONTINUOUS:
            self._switches.append(payload[1] == 1)

    def become(self, continuous: bool) -> None:
        """Waits until they are so."""
        end = time.monotonic() + TIMEOUT
        while self._switches[-1:] != [continuous]:
            assert time.monotonic() < end, f"continuous updates: {self._switches}, not {continuous}"
            self._page.wait_for_timeout(100)


def is_chosen(scene: Scene, updates: Updates) -> None:
    page = scene.page
    page.goto("/console/computers/" + scene.computer["id"] + "/screen")
    expect(page.locator("hotdesk-screen[state=connected]")).to_be_visible()
    expect(page.locator(VIDEO)).to_be_hidden()
    updates.become(continuous=True)
    choose(page, "video")
    expect(page.locator(VIDEO)).to_be_visible()
    updates.become(continuous=False)
    red = paints(scene, "ff0000")
    shows(page, "red", lambda red, green, blue: red > 180 and green < 70 and blue < 70)
    ends(scene, red)
    blue = paints(scene, "0000ff")
    shows(page, "blue", lambda red, green, blue: blue > 180 and green < 70 and red < 70)
    ends(scene, blue)

    # Both pictures have the same place and size, within the pixel to which VNC rounds.
    video = page.locator(VIDEO).evaluate(
        """canvas => {
            const box = canvas.getBoundingClientRect(), scale = Math.min(box.width / canvas.width, box.height / canvas.height);
            const width = canvas.width * scale, height = canvas.height * scale;
            return [box.x + (box.width - width) / 2, box.y + (box.height - height) / 2, width, height];
        }"""
    )
    vnc = page.locator("hotdesk-screen canvas").bounding_box()
    assert vnc, "the canvas of VNC has a place"
    for one, other in zip(video, (vnc["x"], vnc["y"], vnc["width"], vnc["height"])):
        assert abs(one - other) <= 2, (video, vnc)
    scene.shots("screen-video")
    scene.axe()


def takes_input(scene: Scene, updates: Updates) -> None:
    page = scene.page
    expect(page.locator(VIDEO)).to_be_visible()
    argv = ["xterm", "-geometry", "80x20+200+150"]
    window = scene.api("POST", desk(scene) + "/launch", {"argv": argv, "wait_seconds": 60})["window"]
    assert window, "the terminal has a window"
    box = page.locator("hotdesk-screen canvas").bounding_box()
    assert box, "the canvas has a place"
    scale = box["width"] / int(scene.computer["resolution"].split("x")[0])
    # By the mouse itself, which meets what lies on top.
    page.mouse.click(box["x"] + (window["x"] + window["width"] / 2) * scale, box["y"] + (window["y"] + window["height"] / 2) * scale)
    expect(page.get_by_text("You are in control")).to_be_visible()
    page.keyboard.type("echo by-video > /root/typed-by-video; exit\n")
    end = time.monotonic() + TIMEOUT
    while scene.bash("cat /root/typed-by-video 2>/dev/null || true").strip() != "by-video":
        assert time.monotonic() < end, "what was typed did not arrive"
        time.sleep(0.2)
    choose(page, "vnc")
    expect(page.locator(VIDEO)).to_be_hidden()
    updates.become(continuous=True)


def is_automatic(scene: Scene) -> None:
    page = scene.page
    choose(page, "auto")
    expect(page.locator(VIDEO)).to_be_hidden()
    argv = ["xterm", "-geometry", "200x60+0+0", "-fa", "monospace", "-e", "bash", "-c", SCROLLING]
    scrolling = scene.api("POST", desk(scene) + "/processes", {"argv": argv})
    expect(page.locator(VIDEO)).to_be_visible()
    expect(page.get_by_label("Quality of the picture").locator("option:checked")).to_have_text("Automatic (video)")
    ends(scene, scrolling)
    expect(page.locator(VIDEO)).to_be_hidden()
    expect(page.get_by_label("Quality of the picture").locator("option:checked")).to_have_text("Automatic")


def returns_to_vnc_where_there_is_no_encoder(scene: Scene) -> None:
    page = scene.page
    place = scene.bash("command -v ffmpeg").strip()
    scene.bash(f"mv {place} {place}.away")
    choose(page, "video")
    expect(page.get_by_text("The computer has no ffmpeg, which video needs: VNC draws the screen.")).to_be_visible()
    expect(page.locator(VIDEO)).to_be_hidden()
    expect(page.locator("hotdesk-screen[state=connected]")).to_be_visible()
    scene.bash(f"mv {place}.away {place}")
    choose(page, "auto")
    choose(page, "video")
    expect(page.locator(VIDEO)).to_be_visible()
    choose(page, "auto")


def flow(scene: Scene) -> None:
    updates = Updates(scene.page)
    is_chosen(scene, updates)
    takes_input(scene, updates)
    is_automatic(scene)
    returns_to_vnc_where_there_is_no_encoder(scene)


if __name__ == "__main__":
    run(flow)
