"""Chat beside the screen: a model is asked and watched, the screen is taken from it and given back, and it is stopped."""

import re

from playwright.sync_api import Locator, expect
from scene import PHONE, Scene, run

THREAD = re.compile(r"[?&]chat=(thr_[0-9a-f]{32})")


def panel(scene: Scene) -> Locator:
    return scene.page.get_by_role("complementary", name="Chat")


def state(scene: Scene, words: str) -> None:
    """Waits for the state of the run in the head of the thread."""
    expect(panel(scene).get_by_role("status").filter(has_text=re.compile(rf"^{words}"))).to_be_visible()


def thread(scene: Scene) -> str:
    found = THREAD.search(scene.page.url)
    assert found, scene.page.url
    return found.group(1)


def asks_and_watches(scene: Scene) -> None:
    page, chat = scene.page, panel(scene)
    page.goto(f"/console/computers/{scene.computer['id']}/screen")
    page.get_by_role("button", name="Chat", exact=True).click()
    expect(page).to_have_url(re.compile("[?&]chat=new"))
    expect(chat.get_by_text("No model has worked on this computer yet.")).to_be_visible()
    chat.get_by_label("Model", exact=True).select_option("scripted")
    chat.get_by_label("What should the model do?").fill("Order a coffee")
    scene.shots("chat-new")
    chat.get_by_role("button", name="Ask", exact=True).click()
    expect(page).to_have_url(THREAD)
    state(scene, "working")
    contents = chat.get_by_role("region", name="Messages and steps")
    expect(contents).to_contain_text("Order a coffee")
    expect(contents).to_contain_text("I wait for the page.")
    # The screen is beside it.
    expect(page.locator("hotdesk-screen[state=connected]")).to_be_visible()


def takes_over_and_hands_back(scene: Scene) -> None:
    page, chat = scene.page, panel(scene)
    contents = chat.get_by_role("region", name="Messages and steps")
    chat.get_by_role("button", name="Take over", exact=True).click()
    expect(page.get_by_text("You are in control")).to_be_visible()
    scene.bash("touch /tmp/page")
    state(scene, "waits for the screen")
    expect(chat.get_by_text("The model goes on when it is handed back.")).to_be_visible()
    expect(contents.get_by_role("listitem").filter(has_text="Runs a command")).to_be_visible()
    scene.axe()
    scene.shots("chat")

    chat.get_by_role("button", name="Hand back to the model").click()
    dialog = page.get_by_role("dialog", name="Hand the screen back")
    dialog.get_by_label("Note for the agent").fill("The page is there.")
    dialog.get_by_role("button", name="Hand back", exact=True).click()
    expect(dialog).to_be_hidden()
    expect(contents).to_contain_text("The coffee is ordered.")
    state(scene, "done")
    expect(contents.get_by_role("listitem").filter(has_text="Clicks at 200, 150")).to_have_count(2)
    steps = scene.api("GET", f"/chat/threads/{thread(scene)}/steps")["steps"]
    assert [it["is_error"] for it in steps] == [False, True, False], steps
    assert "The page is there." in str(steps[1]["result"]), steps[1]


def continues_and_stops(scene: Scene) -> None:
    page, chat = scene.page, panel(scene)
    contents = chat.get_by_role("region", name="Messages and steps")
    first = thread(scene)
    # The address has all of it.
    page.reload()
    expect(contents).to_contain_text("The coffee is ordered.")
    chat.get_by_role("link", name="New request").click()
    expect(page).to_have_url(re.compile("[?&]chat=new"))
    recent = chat.get_by_role("list", name="Recent threads")
    recent.get_by_role("link", name=re.compile("Order a coffee")).click()
    expect(page).to_have_url(re.compile(first))
    chat.get_by_label("Ask the model").fill("And a cake")
    chat.get_by_role("button", name="Ask", exact=True).click()
    expect(contents).to_contain_text("I look for a cake.")
    chat.get_by_role("button", name="Stop", exact=True).click()
    state(scene, "stopped")
    record = scene.api("GET", f"/chat/threads/{first}")
    assert record["run"] == "cancelled", record


def fits_a_phone(scene: Scene) -> None:
    """In a narrow window the chat covers the screen, until the person takes that over."""
    page, chat = scene.page, panel(scene)
    page.set_viewport_size(PHONE)
    box = chat.bounding_box()
    assert box and box["x"] == 0 and box["width"] == PHONE["width"] and box["height"] == PHONE["height"], box
    chat.get_by_role("button", name="Close the chat").click()
    expect(chat).to_have_count(0)
    button = page.get_by_role("button", name="Chat", exact=True)
    expect(button).to_be_focused()
    button.click()
    chat.get_by_role("list", name="Recent threads").get_by_role("link", name=re.compile("Order a coffee")).click()
    chat.get_by_role("button", name="Take over", exact=True).click()
    expect(chat).to_have_count(0)
    expect(page.get_by_text("You are in control")).to_be_visible()


def flow(scene: Scene) -> None:
    asks_and_watches(scene)
    takes_over_and_hands_back(scene)
    continues_and_stops(scene)
    fits_a_phone(scene)


if __name__ == "__main__":
    run(flow)
