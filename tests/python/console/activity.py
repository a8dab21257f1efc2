"""What was done on a computer of the full image: timeline with pictures, events, recordings, threads."""

import re

from playwright.sync_api import Locator, expect
from scene import closed, run, Scene


def flow(scene: Scene) -> None:
    timeline(scene)
    events(scene)
    recordings(scene)
    threads(scene)


def timeline(scene: Scene) -> None:
    """Actions of a program appear by themselves, with a picture before and after each."""
    page, desk = scene.page, f"/computers/{scene.computer['id']}"
    page.goto(f"/console{desk}/activity")
    actions = page.get_by_role("region", name="Action timeline")
    entries = page.get_by_role("list", name="Actions, newest first")
    expect(entries).to_be_visible()

    scene.api("POST", f"{desk}/launch", {"command": "xterm -title shell", "wait_seconds": 30})
    scene.api("POST", f"{desk}/click", {"x": 640, "y": 400, "settle": {}})
    scene.api("POST", f"{desk}/type", {"text": "hello", "settle": {}})
    clicked = entries.get_by_role("listitem").filter(has_text="clicked at 640, 400")
    typed = entries.get_by_role("listitem").filter(has_text="typed 5 characters")
    for entry in (clicked, typed):
        expect(entry).to_contain_text("API key")
        for when in ("before", "after"):
            picture = entry.get_by_role("img", name=f"The screen {when}: ")
            expect(picture).to_have_js_property("complete", True)
            assert picture.evaluate("it => it.naturalWidth") > 0, f"the picture {when} the action is empty"
    expect(entries).not_to_contain_text("hello")

    actions.get_by_label("Actions by").select_option("person")
    expect(entries).to_contain_text("Nobody of this kind has acted")
    expect(page).to_have_url(re.compile(r"by=person"))
    actions.get_by_label("Actions by").select_option("key")
    expect(typed).to_be_visible()
    with page.expect_download() as download:
        actions.get_by_role("button", name="Export as JSON lines").click()
    assert download.value.suggested_filename.endswith(".jsonl")
    expect(typed.get_by_role("img")).to_have_count(2)
    scene.axe()
    scene.shots("activity")


def events(scene: Scene) -> None:
    """A window that opens is an event; a pause holds events back. A shell in it would change its title."""
    page, desk = scene.page, f"/computers/{scene.computer['id']}"
    page.get_by_role("navigation", name="Kinds of activity").get_by_role("link", name="Events").click()
    expect(page).to_have_url(re.compile(r"show=events"))
    shown = page.get_by_role("list", name="Events, newest first")
    feed = page.get_by_role("region", name="Events")
    expect(feed.get_by_role("status")).to_contain_text("Live")

    scene.api("POST", f"{desk}/launch", {"command": "xterm -title first-window -e sleep 600", "wait_seconds": 30})
    expect(shown.get_by_role("listitem").filter(has_text="“first-window” opened")).to_be_visible()
    feed.get_by_role("button", name="Pause").click()
    scene.api("POST", f"{desk}/launch", {"command": "xterm -title second-window -e sleep 600", "wait_seconds": 30})
    go_on = feed.get_by_role("button", name=re.compile(r"Continue \(\d+ new\)"))
    expect(go_on).to_be_visible()
    expect(shown).not_to_contain_text("second-window")
    go_on.click()
    expect(shown.get_by_role("listitem").filter(has_text="“second-window” opened")).to_be_visible()

    feed.get_by_label("Type").select_option("window_open")
    expect(shown).not_to_contain_text("Process began")
    expect(shown).to_contain_text("“first-window” opened")
    scene.axe()
    scene.shots("events")


def recordings(scene: Scene) -> None:
    """A recording is made, stopped, played with its marks, kept and deleted."""
    page, desk = scene.page, f"/computers/{scene.computer['id']}"
    page.goto(f"/console{desk}/recordings")
    rows = page.get_by_role("list", name="Recordings, newest first")
    expect(rows).to_contain_text("No recordings yet")
    page.get_by_role("button", name="Record the screen").click()
    row = rows.get_by_role("listitem").filter(has_text="pictures a second")
    expect(row).to_contain_text("recording")
    scene.api("POST", f"{desk}/click", {"x": 300, "y": 300})
    expect(row).to_contain_text(re.compile(r"0:(0[3-9]|[1-5]\d)"))
    row.get_by_role("button", name="Stop").click()
    expect(row).to_contain_text("stopped by hand")

    row.get_by_role("button", name="Play").click()
    expect(page).to_have_url(re.compile(r"recording="))
    player = page.get_by_role("region", name="Player")
    video = player.get_by_label("Video of the screen")
    expect(video).to_have_js_property("readyState", 4)
    plays_to_its_end(video)
    marks = player.get_by_role("list", name="Marks").get_by_role("button")
    marks.first.click()
    expect(video).to_have_js_property("ended", False)
    assert video.evaluate("it => it.currentTime < it.duration")
    expect(player.get_by_role("list", name="Actions of the recording")).to_contain_text("clicked at 300, 300")
    player.press("Home")
    expect(video).to_have_js_property("currentTime", 0)
    player.press(".")
    assert video.evaluate("it => it.currentTime") > 0, "the next action is later"
    assert video.evaluate("it => it.textTracks[0].label") == "Actions"
    scene.axe()
    scene.shots("recordings")

    with page.expect_download() as download:
        row.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename.endswith(".mp4")
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the recording").click()
    closed(page)
    expect(rows).to_contain_text("No recordings yet")
    expect(player).to_have_count(0)
    assert scene.api("GET", f"{desk}/recordings")["recordings"] == []


def plays_to_its_end(video: Locator) -> None:
    # Chromium plays by itself only what makes no sound.
    video.evaluate("it => { it.muted = true; return it.play(); }")
    expect(video).to_have_js_property("ended", True)
    assert video.evaluate("it => it.currentTime") > 2, "three seconds were recorded"


def threads(scene: Scene) -> None:
    """A model is asked; its thread is read, renamed, kept and deleted."""
    page, computer = scene.page, scene.computer
    page.goto(f"/console/threads?computer={computer['id']}")
    expect(page.get_by_role("heading", name=f"New thread on {computer['name']}")).to_be_visible()
    if not scene.api("GET", "/v1/models")["data"]:
        expect(page.get_by_role("heading", name="No model is configured")).to_be_visible()
        created = scene.api("POST", "/chat/threads", {"desktopId": computer["id"]})
        page.goto(f"/console/threads/{created['remoteId']}")
    else:
        page.get_by_label("What should the model do?").fill("Look at the screen")
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page).to_have_url(re.compile(r"/console/threads/thr_[0-9a-f]{32}"))
        asked(scene)
    thread = re.search(r"thr_[0-9a-f]{32}", page.url).group()

    # Another client writes into it, which the page shows.
    said = [{"role": "user", "content": "Is it open?"}, {"role": "assistant", "content": "The editor is open."}]
    scene.api("PATCH", f"/chat/threads/{thread}", {"messages": said})
    page.reload()
    contents = page.get_by_role("region", name="Messages and steps")
    expect(contents).to_contain_text("Is it open?")
    expect(contents).to_contain_text("The editor is open.")
    picture = page.get_by_role("img", name=f"Screen of {computer['name']}")
    expect(picture).to_have_js_property("complete", True)
    expect(page.get_by_role("link", name="Take over the screen")).to_have_attribute(
        "href", f"/console/computers/{computer['id']}/screen")

    page.get_by_role("button", name="Actions of the thread").click()
    page.get_by_role("menuitem", name="Rename…").click()
    page.get_by_role("dialog").get_by_label("Title").fill("Editor")
    page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", name="Editor")).to_be_visible()
    listed = page.get_by_role("region", name="Threads").get_by_role("link", name="Editor")
    expect(listed).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    scene.axe()
    scene.shots("threads")
    of_all_computers(scene, thread)

    page.get_by_role("button", name="Actions of the thread").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Export as JSON lines").click()
    assert download.value.suggested_filename == f"{thread}.jsonl"
    page.get_by_role("button", name="Actions of the thread").click()
    page.get_by_role("menuitem", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the thread").click()
    closed(page)
    expect(listed).to_have_count(0)
    assert thread not in str(scene.api("GET", f"/chat/threads?computer_id={computer['id']}"))


def of_all_computers(scene: Scene, thread: str) -> None:
    """The threads of all computers come by one list, which the address can narrow to those with a status."""
    page = scene.page
    lists: list[str] = []
    page.on("request", lambda request: lists.append(request.url) if "/threads?" in request.url else None)
    page.goto("/console/threads")
    row = page.get_by_role("region", name="Threads").get_by_role("link", name="Editor")
    expect(row).to_contain_text(scene.computer["name"])
    listed = scene.api("GET", f"/threads?computer_id={scene.computer['id']}")["threads"]
    (found,) = [it for it in listed if it["id"] == thread]
    used = sum(found["usage"].values())
    if used:
        expect(row).to_contain_text(f"{used:,} tokens")
    assert lists and all("/api/threads?" in url and "computer_id" not in url for url in lists), lists
    scene.api("PATCH", f"/chat/threads/{thread}", {"archive": True})
    page.goto("/console/threads?status=active")
    expect(page.get_by_role("heading", name="No active threads")).to_be_visible()
    page.goto("/console/threads?status=archived")
    expect(row).to_contain_text("archived")
    scene.axe()
    row.click()
    expect(page).to_have_url(re.compile(rf"/console/threads/{thread}\?status=archived$"))


def asked(scene: Scene) -> None:
    """The answer of a model with its steps; else the reason of the API."""
    page = scene.page
    if not scene.has_model:
        failure = page.get_by_role("alert").filter(has_text="The run failed")
        expect(failure).to_be_visible()
        expect(failure.get_by_role("link", name="configure a model")).to_be_visible()
        # What was not asked can be asked again.
        expect(page.get_by_label("Ask the model")).to_have_value("Look at the screen")
        return
    contents = page.get_by_role("region", name="Messages and steps")
    expect(contents).to_contain_text("Look at the screen")
    expect(page.get_by_role("status").filter(has_text="done")).to_be_visible()
    expect(contents.get_by_role("listitem").filter(has_text="Model")).not_to_have_count(0)
    steps = page.get_by_role("status").filter(has_text=re.compile(r"[1-9]\d* step"))
    expect(steps).to_be_visible()
    expect(contents.get_by_role("img", name="Screen after step 1")).to_have_js_property("complete", True)


if __name__ == "__main__":
    run(flow)
