#!/usr/bin/env python3
"""Latency from glass to glass: from the paint on a computer's screen until the console's page has the picture.

usage: latency.py HOTDESK_BINARY IMAGE_FOLDER

It needs an image with ffmpeg (`full`) and a binary that contains the console. A program in the computer paints frames at 30 a
second, each with its number as black and white blocks, and notes the time of each paint. The page reads the number from what it
shows at each of its own frames. A computer over runc has the host's clock, so the difference of the two times is the latency; the
monitor would add its own, at most one frame. `HOTDESK_LATENCY_MODES=vnc,video` chooses what draws.
"""

import json
import os
import statistics
import time

import psutil
from playwright.sync_api import TimeoutError, sync_playwright

from controller import RUNC, Controller
from support import QUICK, Table, arguments

SECONDS = 3 if QUICK else 20
FPS = 30
# Seconds until the page shows the pattern: the automatic choice waits for lasting change.
READY = 60
# Goal of the median in milliseconds, at a film in 720p.
GOAL = 100
# What draws, as the menu "Quality of the picture" calls it.
MODES = os.environ.get("HOTDESK_LATENCY_MODES", "vnc,video,auto").split(",")
PATTERNS = ("film", "scroll", "blocks")
WINDOW = {"width": 1600, "height": 1100}
LOG = "/tmp/painted"
# Bits of a number and pixels of a block's side. The second row has the complement, so that a torn or blurred picture is not read.
BITS, BLOCK = 16, 32

# Runs in the computer, with python3-xlib and python3-pil of the image. The whole screen changes with `film` (a moving noisy
# picture) and `scroll` (lines that move up); with `blocks` only the number does.
PROGRAM = f"""
import random, sys, time
from PIL import Image, ImageDraw
from Xlib import X, display
pattern = sys.argv[1]
link = display.Display()
screen = link.screen()
width, height = screen.width_in_pixels, screen.height_in_pixels
window = screen.root.create_window(0, 0, width, height, 0, screen.root_depth, override_redirect=1, background_pixel=0x808080)
gc = window.create_gc()
window.map()
room = 256
tall = window.create_pixmap(width + room, height + room, screen.root_depth)
if pattern == 'film':
    noise = Image.effect_noise((width + room, height + room), 24)
    shade = Image.linear_gradient('L').resize(noise.size)
    picture = Image.merge('RGB', (Image.blend(noise, shade, 0.7), Image.blend(noise, shade.rotate(180), 0.7), shade))
else:
    picture = Image.new('RGB', (width + room, height + room), 'white')
    pen = ImageDraw.Draw(picture)
    for y in range(0, height + room, 16):
        pen.text((200, y), ' '.join(random.choice(['while', 'return', 'the', 'quick', 'fox', '42']) for _ in range(130)), 'black')
tall.put_pil_image(gc, 0, 0, picture)
link.sync()
notes = open({LOG!r}, 'w', buffering=1)
began, number = time.monotonic(), 0
while True:
    number = (number + 1) % {1 << BITS}
    if pattern != 'blocks':
        at = number * 4 % room
        window.copy_area(gc, tall, at if pattern == 'film' else 0, at, width, height, 0, 0)
    for colour, value in ((0xffffff, number), (0, number ^ {(1 << BITS) - 1})):
        gc.change(foreground=colour)
        bits = [bit for bit in range({BITS}) if value >> bit & 1]
        window.poly_fill_rectangle(gc, [(bit * {BLOCK}, 0, {BLOCK}, {BLOCK}) for bit in bits])
        gc.change(foreground=colour ^ 0xffffff)
        window.poly_fill_rectangle(gc, [(bit * {BLOCK}, {BLOCK}, {BLOCK}, {BLOCK}) for bit in bits])
    # The answer says that the server has painted; input events do not pile up, because none are selected.
    link.sync()
    notes.write('%d %.3f\\n' % (number, time.time() * 1000))
    began += 1 / {FPS}
    time.sleep(max(0, began - time.monotonic()))
"""

# Notes each new number with its time. The canvas of the video lies above that of noVNC, if there is one. `Date.now` follows the
# clock that the program in the computer reads; `performance.now` would drift from it.
WATCH = f"""() => {{
  const bits = {BITS}, block = {BLOCK};
  const small = document.createElement("canvas");
  small.width = bits; small.height = 2;
  const pen = small.getContext("2d", {{ willReadFrequently: true }});
  pen.imageSmoothingEnabled = false;
  const drawn = () => {{
    const video = document.querySelector("canvas.screen-video:not([hidden])");
    return video ?? document.querySelector("hotdesk-screen")?.shadowRoot?.querySelector("canvas");
  }};
  const watch = window.latencyBench = {{ seen: [], frames: 0, byVideo: 0, run: true }};
  let last = -1;
  const look = () => {{
    if (!watch.run) return;
    requestAnimationFrame(look);
    const canvas = drawn();
    if (!canvas || canvas.width < bits * block) return;
    watch.frames += 1;
    if (canvas.classList.contains("screen-video")) watch.byVideo += 1;
    pen.drawImage(canvas, 0, 0, bits * block, 2 * block, 0, 0, bits, 2);
    const now = Date.now();
    const pixels = pen.getImageData(0, 0, bits, 2).data;
    let number = 0, complement = 0;
    for (let bit = 0; bit < bits; bit += 1) {{
      if (pixels[4 * bit] > 127) number += 2 ** bit;
      if (pixels[4 * (bits + bit)] > 127) complement += 2 ** bit;
    }}
    if (number + complement !== 2 ** bits - 1 || number === last) return;
    last = number;
    watch.seen.push([number, now]);
    if (watch.seen.length > 20000) watch.run = false;
  }};
  requestAnimationFrame(look);
}}"""


def processes(controller, computer):
    """The processes to measure, by what they are called in the table."""
    served = psutil.Process(controller.server.pid)
    browsers = [it for it in psutil.Process().children(recursive=True) if it.pid != served.pid and "chrom" in it.name()]
    with open(f"{controller.data}/runtime/{computer}/state.json") as file:
        inside = psutil.Process(json.load(file)["init_process_pid"])
    inside = [inside, *inside.children(recursive=True)]

    def named(*names):
        return [it for it in inside if any(name in it.name().lower() for name in names)]

    return {"controller": [served], "browser": browsers, "agent": named("hotdesk"), "Xvnc": named("xvnc", "xtigervnc"),
            "ffmpeg": named("ffmpeg")}


def seconds_of(listed):
    """CPU seconds of each process so far, by its id."""
    spent = {}
    for process in listed:
        try:
            times = process.cpu_times()
            spent[process.pid] = times.user + times.system
        except psutil.NoSuchProcess:
            pass
    return spent


def shares(before, after, took):
    """Per cent of a core of each group. A process that began in between counts in full, one that ended does not."""
    return {name: sum(seconds - before[name].get(pid, 0) for pid, seconds in spent.items()) / took * 100
            for name, spent in after.items()}


def measure(controller, computer, page):
    """Latencies in milliseconds, frames a second, the share of frames that video drew, and shares of a core."""
    page.evaluate(WATCH)
    spent = {name: seconds_of(all_) for name, all_ in processes(controller, computer).items()}
    began = time.monotonic()
    page.wait_for_timeout(SECONDS * 1000)
    took = time.monotonic() - began
    cores = shares(spent, {name: seconds_of(all_) for name, all_ in processes(controller, computer).items()}, took)
    watched = page.evaluate("() => { latencyBench.run = false; return latencyBench }")
    # The whole of it is too long for the answer of a command.
    content = controller.api.raw("GET", f"/computers/{computer}/files/content?path={LOG}").decode()
    painted = dict(map(float, line.split()) for line in content.splitlines()[-(1 << BITS) + 1:] if line.count(" ") == 1)
    latencies = sorted(at - painted[number] for number, at in watched["seen"] if number in painted)
    by_video = watched["byVideo"] / max(1, watched["frames"])
    return latencies, len(watched["seen"]) / took, by_video, cores


def shown(page, mode):
    """Opens the page anew with a quality, and waits until the screen is drawn as that says."""
    page.evaluate("mode => localStorage.setItem('hotdesk.quality', mode)", mode)
    page.reload()
    page.locator("hotdesk-screen[state=connected]").wait_for(timeout=READY * 1000)
    if mode == "video":
        page.locator("canvas.screen-video:not([hidden])").wait_for(timeout=READY * 1000)
    # The automatic choice takes some seconds; caches and rates settle meanwhile.
    page.wait_for_timeout(8000 if mode == "auto" else 3000)


def main():
    binary, image = arguments("latency.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    with Controller(binary, image, RUNC) as controller, sync_playwright() as playwright:
        api = controller.api
        workspace = api("POST", "/workspaces", {"name": "bench"})["id"]
        computer = api("POST", "/computers", {"workspace_id": workspace, "name": "one", "cpu": 2})["id"]
        link = api("POST", "/user/sign-in-links", {})["url"]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_context(viewport=WINDOW).new_page()
        page.goto(link)
        page.get_by_role("button").first.click()
        page.wait_for_url(lambda url: "/sign-in" not in url)
        page.goto(f"http://{controller.host}:{controller.port}/console/computers/{computer}/screen")
        table = Table(f"latency glass to glass (ms; {FPS} frames a second in 720p; % of a core)", "median", "p95", "max", "frames/s",
                      "% by video", "agent", "Xvnc", "ffmpeg", "controller", "browser")
        for pattern in PATTERNS:
            program = api("POST", f"/computers/{computer}/processes",
                          {"argv": ["python3", "-c", PROGRAM, pattern], "name": f"pattern-{pattern}"})
            for mode in MODES:
                label = f"{pattern}, {mode}"
                try:
                    shown(page, mode)
                except TimeoutError:
                    table.skip(label, "the page did not show the screen so")
                    continue
                latencies, rate, by_video, cores = measure(controller, computer, page)
                if not latencies:
                    running = api("GET", f"/computers/{computer}/processes")
                    table.skip(label, f"no number was read: {json.dumps(running)[:400]}")
                    continue
                median = statistics.median(latencies)
                table.row(label, median, latencies[len(latencies) * 95 // 100], latencies[-1], rate, by_video * 100,
                          *(cores[name] for name in ("agent", "Xvnc", "ffmpeg", "controller", "browser")))
                # What people get who choose nothing.
                if (pattern, mode) == ("film", "auto"):
                    table.goal(f"{label}, the median", median, most=GOAL)
            api("DELETE", f"/computers/{computer}/processes/{program['id']}")
        table.save()
        browser.close()


if __name__ == "__main__":
    main()
