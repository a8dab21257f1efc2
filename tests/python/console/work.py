"""Terminal, files and processes of a computer in the console."""

import hashlib
import re
import struct
import time
import zlib
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, Route, WebSocketRoute, expect
from scene import closed, run, Scene, TIMEOUT

FOLDER = "/root/console-work"
# More than one piece of an upload, which begins with 256 KiB.
BIG = bytes(range(256)) * 24 * 1024
FIRST = b"first line\n"


def flow(scene: Scene) -> None:
    terminal(scene)
    files(scene)
    processes(scene)


def tab(scene: Scene, name: str, query: str = "") -> Page:
    scene.page.goto(f"/console/computers/{scene.computer['id']}/{name}{query}")
    return scene.page


# Terminal.


def terminal(scene: Scene) -> None:
    page = scene.page
    sockets: list[WebSocketRoute] = []

    def relay(socket: WebSocketRoute) -> None:
        socket.connect_to_server()
        sockets.append(socket)

    page.route_web_socket(re.compile("/ws/terminal"), relay)
    tab(scene, "terminal")
    is_open = page.get_by_text("leaves the terminal")
    expect(is_open).to_be_visible()
    tabs = page.get_by_role("tablist", name="Terminals").get_by_role("tab")
    expect(page.get_by_role("textbox", name="Terminal input")).to_be_focused()
    page.keyboard.type("echo $((6*7))\n")
    expect(line(page, "42")).to_be_visible()

    # The shell sees the size of the window, and its changes.
    page.keyboard.type("stty size >/tmp/console-size; echo kept$((1+1))\n")
    expect(line(page, "kept2")).to_be_visible()
    page.set_viewport_size({"width": 900, "height": 700})
    page.keyboard.type('while [ "$(stty size)" = "$(cat /tmp/console-size)" ]; do sleep 0.1; done; echo resized$((1+2))\n')
    expect(line(page, "resized3")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 800})

    # Programs name the terminal.
    page.keyboard.type("printf '\\033]0;deploying\\007'; sleep 600\n")
    expect(tabs.first).to_have_text("deploying")
    page.keyboard.press("Control+c")

    # The keyboard comes out again.
    page.keyboard.press("Control+Shift+Escape")
    expect(tabs.first).to_be_focused()

    page.get_by_role("button", name="New terminal").click()
    expect(tabs).to_have_count(2)
    expect(page).to_have_url(re.compile(r"terminal=2"))
    expect(is_open).to_be_visible()
    page.get_by_role("button", name=re.compile("^Close ")).click()
    expect(tabs).to_have_count(1)

    # Text is copied and pasted.
    page.evaluate("navigator.clipboard.writeText('echo pasted$((2+2))')")
    page.get_by_role("button", name="Paste", exact=True).click()
    expect(page.get_by_role("textbox", name="Terminal input")).to_be_focused()
    expect(page.locator(".xterm-rows")).to_contain_text("echo pasted$((2+2))")
    page.keyboard.press("Enter")
    expect(line(page, "pasted4")).to_be_visible()

    # A shell stays while a person looks at another tab.
    page.get_by_role("tab", name="Files", exact=True).click()
    expect(page.get_by_role("region", name="Files")).to_be_visible()
    page.get_by_role("tab", name="Terminal", exact=True).click()
    expect(line(page, "pasted4")).to_be_visible()

    # Screen readers get the text as a list. It is transparent over the picture of the same text, so axe looks without it.
    page.get_by_role("switch", name="For screen readers").check()
    expect(page.get_by_role("listitem").filter(has_text=re.compile(r"^\s*pasted4\s*$"))).to_have_count(1)
    page.get_by_role("switch", name="For screen readers").uncheck()
    scene.axe()
    scene.shots("terminal")

    # A lost connection is said, and there is a new shell.
    sockets[0].close(code=1011, reason="a test of losses")
    expect(page.locator(".xterm-rows")).to_contain_text("The connection was lost")
    expect(page.locator(".xterm-rows")).to_contain_text("This is a new shell.")
    expect(is_open).to_be_visible()
    page.get_by_role("textbox", name="Terminal input").focus()
    page.keyboard.type("exit 3\n")
    expect(page.get_by_role("status").filter(has_text="The shell ended with code 3.")).to_be_visible()
    page.get_by_role("button", name="New shell").click()
    expect(is_open).to_be_visible()
    page.get_by_role("button", name=re.compile("^Close ")).click()
    expect(page.get_by_role("heading", name="No terminal is open")).to_be_visible()


def line(page: Page, text: str) -> Locator:
    """A line of the terminal that is this text; the command that is typed has more."""
    return page.locator(".xterm-rows > div").filter(has_text=re.compile(rf"^\s*{text}\s*$")).first


# Files.


def files(scene: Scene) -> None:
    scene.bash(f"rm -rf {FOLDER}; echo hidden >/root/.console-hidden")
    page = tab(scene, "files", "?path=/root")
    make_folder(scene, page)
    send(scene, page)
    edit(scene, page)
    preview(page)
    preview_pdf(scene, page)
    scene.axe()
    scene.shots("files")
    rename_download_delete(scene, page)


def make_folder(scene: Scene, page: Page) -> None:
    here = page.get_by_role("navigation", name="Folder").get_by_role("link", name="root", exact=True)
    expect(here).to_have_attribute("aria-current", "page")
    expect(page.get_by_role("link", name=".console-hidden")).to_have_count(0)
    page.get_by_role("switch", name="Hidden files").check()
    expect(page.get_by_role("link", name=".console-hidden")).to_be_visible()
    page.get_by_role("button", name="New folder").click()
    page.get_by_label("Name", exact=True).fill("a/b")
    page.get_by_role("button", name="Make the folder").click()
    expect(page.get_by_text("A name has no slash")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("console-work")
    page.get_by_role("button", name="Make the folder").click()
    page.get_by_role("link", name="console-work", exact=True).click()
    expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
    assert scene.bash(f"stat -c %F {FOLDER}").strip() == "directory"


def send(scene: Scene, page: Page) -> None:
    """Several files at once; the connection breaks in the middle of the large one."""
    pieces: list[str] = []

    def break_once(route: Route) -> None:
        if route.request.method == "PATCH":
            pieces.append(route.request.headers["upload-offset"])
            if len(pieces) == 3:
                route.abort("connectionreset")
                return
        route.continue_()

    page.route("**/files/uploads/*", break_once)
    choose(page, [("big.bin", "application/octet-stream", BIG)])
    transfers = page.get_by_role("list", name="Transfers").get_by_role("listitem")
    expect(transfers.filter(has_text="big.bin")).to_contain_text("done")
    page.unroute("**/files/uploads/*")
    assert len(pieces) > 3 and pieces[2] == pieces[3] != "0", f"the upload did not go on where it broke: {pieces}"
    assert scene.bash(f"sha256sum {FOLDER}/big.bin").split()[0] == hashlib.sha256(BIG).hexdigest()

    pictures = [("dot.png", "image/png", picture(2)), ("huge.png", "image/png", picture(60_000))]
    documents = [("red.pdf", "application/pdf", pdf()), ("page.pdf", "application/pdf", b"<script>document.title = 1</script>")]
    choose(page, [("notes.txt", "text/plain", FIRST), *pictures, *documents, ("empty.txt", "text/plain", b"")])
    for name in ("notes.txt", "dot.png", "huge.png", "red.pdf", "page.pdf", "empty.txt"):
        expect(transfers.filter(has_text=name)).to_contain_text("done")
        expect(page.get_by_role("link", name=name)).to_be_visible()
    assert scene.bash(f"stat -c %s {FOLDER}/empty.txt").strip() == "0"

    # What is there is replaced only when a person says so.
    choose(page, [("empty.txt", "text/plain", b"no longer\n")])
    expect(page.get_by_text("A file of this name is there.")).to_be_visible()
    assert scene.bash(f"stat -c %s {FOLDER}/empty.txt").strip() == "0"
    page.get_by_role("button", name="Replace empty.txt").click()
    expect(page.get_by_text("A file of this name is there.")).to_have_count(0)
    expect(page.get_by_text("All transfers have ended")).to_be_visible()
    assert scene.bash(f"cat {FOLDER}/empty.txt") == "no longer\n"
    page.get_by_role("button", name="Clear the ended").click()
    expect(transfers).to_have_count(0)


def choose(page: Page, chosen: list[tuple[str, str, bytes]]) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload", exact=True).click()
    chooser.value.set_files([{"name": name, "mimeType": kind, "buffer": content} for name, kind, content in chosen])


def picture(side: int) -> bytes:
    """A picture of 2×2 red pixels, which claims to have so many on each side."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff\0\0" * 2) * 2
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def pdf() -> bytes:
    """A PDF file with one page, which is red."""
    drawing = b"1 0 0 rg 0 0 300 300 re f"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 4 0 R>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(drawing), drawing),
    ]
    content, table = b"%PDF-1.4\n", b"0000000000 65535 f \n"
    for number, each in enumerate(objects, 1):
        table += b"%010d 00000 n \n" % len(content)
        content += b"%d 0 obj" % number + each + b"endobj\n"
    trailer = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(content))
    return content + b"xref\n0 %d\n" % (len(objects) + 1) + table + trailer


def edit(scene: Scene, page: Page) -> None:
    page.get_by_role("link", name="notes.txt").click()
    text = page.get_by_role("textbox", name="Text of notes.txt")
    expect(text).to_contain_text("first line")
    scene.axe()
    text.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("second line\n")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("notes.txt is saved")).to_be_visible()
    assert scene.bash(f"cat {FOLDER}/notes.txt") == "first line\nsecond line\n"

    # The version of the first save is known: the next one needs no question.
    text.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("third line\n")
    with page.expect_request(lambda request: request.method == "PUT") as saved:
        page.keyboard.press("Control+s")
    assert saved.value.header_value("if-match"), "the version that may be replaced"
    # The notice of the first save may still be there, the button waits for the second.
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    assert scene.bash(f"cat {FOLDER}/notes.txt") == "first line\nsecond line\nthird line\n"

    # Another's change is not overwritten unasked, and a person's is not discarded unasked.
    scene.bash(f"echo of somebody else >{FOLDER}/notes.txt")
    text.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("fourth line\n")
    page.keyboard.press("Control+s")
    question = page.get_by_role("dialog", name="The file changed meanwhile")
    question.get_by_role("button", name="Cancel").click()
    assert scene.bash(f"cat {FOLDER}/notes.txt") == "of somebody else\n"
    page.get_by_role("link", name="Back to the folder").click()
    page.get_by_role("dialog", name="Discard your changes?").get_by_role("button", name="Cancel").click()
    expect(text).to_contain_text("fourth line")
    page.get_by_role("button", name="Load what is there now").click()
    page.get_by_role("dialog", name="Discard your changes?").get_by_role("button", name="Discard them").click()
    expect(text).to_contain_text("of somebody else")
    expect(text).not_to_contain_text("fourth line")
    page.get_by_role("link", name="Back to the folder").click()


def preview(page: Page) -> None:
    page.get_by_role("link", name="dot.png").click()
    shown = page.get_by_role("img", name="dot.png")
    expect(shown).to_be_visible()
    expect(shown).to_have_js_property("naturalWidth", 2)
    page.get_by_role("link", name="Back to the folder").click()
    # A browser would need gigabytes for what its header claims.
    page.get_by_role("link", name="huge.png").click()
    expect(page.get_by_text("The picture has too many pixels to be shown here")).to_be_visible()
    page.get_by_role("link", name="Back to the folder").click()
    page.get_by_role("link", name="big.bin").click()
    expect(page.get_by_role("heading", name="No preview")).to_be_visible()
    page.get_by_role("link", name="Back to the folder").click()
    expect(page.get_by_role("link", name="big.bin")).to_be_visible()


def preview_pdf(scene: Scene, page: Page) -> None:
    frame = page.get_by_title("Pages of red.pdf")
    page.get_by_role("link", name="red.pdf").click()
    if page.evaluate("navigator.pdfViewerEnabled"):
        expect(frame).to_have_attribute("src", re.compile("^blob:"))
        deadline = time.monotonic() + TIMEOUT / 1000
        while not is_red(frame.screenshot()):
            assert time.monotonic() < deadline, "the viewer of the browser shows no page"
            page.wait_for_timeout(200)
        scene.axe()
        scene.shots("files-pdf")
        page.get_by_role("link", name="Back to the folder").click()
        # A frame shows nothing else that has the name of a PDF file.
        page.get_by_role("link", name="page.pdf").click()
        expect(page.get_by_text("Its name says that it is a PDF file")).to_be_visible()
        page.get_by_role("link", name="Back to the folder").click()
        page.evaluate("Object.defineProperty(Navigator.prototype, 'pdfViewerEnabled', { get: () => false })")
        page.get_by_role("link", name="red.pdf").click()
    expect(page.get_by_text("This browser does not show PDF files in pages")).to_be_visible()
    expect(frame).to_have_count(0)
    with page.expect_download() as begun:
        page.get_by_role("button", name="Download", exact=True).click()
    assert Path(begun.value.path()).read_bytes() == pdf()
    page.get_by_role("link", name="Back to the folder").click()
    expect(page.get_by_role("link", name="red.pdf")).to_be_visible()


def is_red(screenshot: bytes) -> bool:
    """Whether a large part of a picture is red."""
    colours = Image.open(BytesIO(screenshot)).convert("RGB").getcolors(1 << 24)
    return sum(count for count, (red, green, blue) in colours if red > 200 and green < 60 and blue < 60) > 10_000


def rename_download_delete(scene: Scene, page: Page) -> None:
    act(page, "big.bin", "Rename or move")
    page.get_by_label("New path").fill(f"{FOLDER}/large.bin")
    page.get_by_role("button", name="Move", exact=True).click()
    expect(page.get_by_role("link", name="large.bin")).to_be_visible()
    expect(page.get_by_role("link", name="big.bin")).to_have_count(0)
    with page.expect_download() as begun:
        act(page, "large.bin", "Download")
    assert begun.value.suggested_filename == "large.bin"
    assert Path(begun.value.path()).read_bytes() == BIG

    page.get_by_role("navigation", name="Folder").get_by_role("link", name="root", exact=True).click()
    with page.expect_download() as begun:
        act(page, "console-work", "Download as an archive")
    assert begun.value.suggested_filename == "console-work.tar"
    assert BIG in Path(begun.value.path()).read_bytes()
    act(page, "console-work", "Delete")
    page.get_by_role("dialog", name="Delete console-work?").get_by_role("button", name="Delete", exact=True).click()
    closed(page)
    expect(page.get_by_role("link", name="console-work", exact=True)).to_have_count(0)
    assert scene.bash(f"test -e {FOLDER} || echo gone") == "gone\n"


def act(page: Page, name: str, action: str) -> None:
    page.get_by_role("button", name=f"Actions on {name}", exact=True).click()
    page.get_by_role("menuitem", name=action, exact=True).click()


# Processes.


def processes(scene: Scene) -> None:
    page = tab(scene, "processes")
    # What the page repeats by itself is no use of the computer.
    for read in ["readiness", "processes", "services", "sessions"]:
        with page.expect_request(lambda request: request.url.endswith(f"/{read}")) as repeated:
            pass
        assert repeated.value.header_value("x-hotdesk-passive") == "true", read
    for name in ("Processors", "Memory", "Disk"):
        expect(page.get_by_role("img", name=re.compile(rf"^{name} over time: [\d.]+ \S+ of "))).to_be_visible()

    page.get_by_role("button", name="Start a process").click()
    start = page.get_by_role("dialog", name="Start a process")
    start.get_by_role("button", name="Start", exact=True).click()
    expect(start.get_by_text("Enter a command")).to_be_visible()
    start.get_by_label("Command").fill("echo begun; while sleep 1; do echo tick; done")
    start.get_by_label("Name").fill("clock")
    start.get_by_role("button", name="Start", exact=True).click()
    output = page.get_by_role("log", name="Output of clock")
    expect(output).to_contain_text("begun")
    expect(output).to_contain_text("tick")
    row = page.get_by_role("table", name="Background processes").get_by_role("row").filter(has_text="clock")
    expect(row).to_contain_text("running")

    page.get_by_label("Another port").fill("99999")
    page.get_by_role("button", name="Open the port").click()
    expect(page.get_by_text("Enter a number from 1 to 65535")).to_be_visible()
    scene.axe()
    scene.shots("processes")

    # Another client sees it; a signal ends it; its record is removed.
    (record,) = scene.api("GET", f"/computers/{scene.computer['id']}/processes")["processes"]
    assert (record["name"], record["status"]) == ("clock", "running"), record
    page.get_by_role("button", name="Signals to clock").click()
    page.get_by_role("menuitem", name=re.compile("KILL")).click()
    expect(row).to_contain_text("killed by KILL")
    expect(page.get_by_text("The process has ended.")).to_be_visible()
    page.get_by_role("button", name="Remove clock").click()
    expect(row).to_have_count(0)

    # One that runs is ended after a question.
    page.get_by_role("button", name="Start a process").click()
    start.get_by_label("Command").fill("sleep 600")
    start.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("button", name="End sleep 600").click()
    question = page.get_by_role("dialog", name="End sleep 600?")
    question.get_by_role("button", name="End it").click()
    closed(page)
    # Not only its button: one that has ended is still a row until it is removed.
    table = page.get_by_role("table", name="Background processes")
    expect(table.get_by_role("row").filter(has_text="sleep 600")).to_have_count(0)
    assert scene.api("GET", f"/computers/{scene.computer['id']}/processes")["processes"] == []


if __name__ == "__main__":
    run(flow)
