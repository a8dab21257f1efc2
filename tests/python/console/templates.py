"""Templates, snapshots and settings: a template is written, built with a live log and launched; a computer is rolled back and changed."""

import re

from playwright.sync_api import Locator, expect
from scene import Scene, closed, run

BROKEN = """\
api_version: hotdesk/v1
name: note-desk@1.0.0
hardware: {cpu: 3, ram_gb: 4}
files:
  - to: /opt/note.txt
    inline: from the template
  - to: /opt/run.sh
    mode: "0755"
    inline: |
      #!/bin/sh
      echo "a: b"  # two spaces

      echo end
"""
# A self-test takes up to 75 s on a quiet machine.
SELF_TEST = 180_000


def part(scene: Scene, name: str) -> Locator:
    """A titled part of the page."""
    return scene.page.get_by_role("region", name=name, exact=True)


def catalogue(scene: Scene) -> None:
    page = scene.page
    page.goto("/console/templates")
    picture = page.get_by_role("img", name="Desktop of browser")
    picture.scroll_into_view_if_needed()
    page.wait_for_function("it => it.complete && it.naturalWidth > 0", arg=picture.element_handle())
    page.get_by_role("searchbox", name="Find a template").fill("jupyter")
    expect(picture).to_be_hidden()
    expect(page.get_by_role("link", name="python", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("q=jupyter"))
    page.get_by_role("searchbox", name="Find a template").fill("")
    expect(picture).to_be_visible()
    page.get_by_role("button", name="Star system/browser@1.0.0").click()
    expect(page.get_by_role("button", name="Star system/browser@1.0.0")).to_have_attribute("aria-pressed", "true")
    stars = scene.api("GET", "/templates/starred")["templates"]
    assert [it["ref"] for it in stars] == ["system/browser@1.0.0"], stars
    scene.axe()
    scene.shots("templates")


def write(scene: Scene) -> None:
    page = scene.page
    page.get_by_role("link", name="New template").click()
    text = page.get_by_role("textbox", name="Definition file")
    publish = page.get_by_role("button", name="Publish")
    expect(page.get_by_text("The file is valid.")).to_be_visible()
    text.click()
    page.keyboard.press("Control+A")
    # Typing would indent by itself.
    page.evaluate("text => navigator.clipboard.writeText(text)", BROKEN)
    page.keyboard.press("Control+V")
    problem = page.get_by_role("button", name=re.compile("Line 3, column 17.*must be 1, 2, 4, 8 or 16"))
    expect(problem).to_be_visible()
    expect(page.locator(".cm-lintRange-error")).to_have_text("3")
    expect(publish).to_be_disabled()
    scene.axe()
    scene.shots("template-editor")

    problem.click()
    page.keyboard.press("Delete")
    page.keyboard.type("1")
    expect(page.get_by_text("The file is valid.")).to_be_visible()
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)
    # Names of fields are offered where they can be.
    page.keyboard.press("Control+End")
    page.keyboard.type("ap")
    expect(page.get_by_role("option", name=re.compile("^apps"))).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Backspace")
    page.keyboard.press("Backspace")
    expect(page.get_by_text("The file is valid.")).to_be_visible()
    page.get_by_role("switch", name="Build at once").uncheck()
    publish.click()
    page.wait_for_url("**/console/templates/default/note-desk/1.0.0")


def build_and_launch(scene: Scene) -> None:
    page = scene.page
    build = part(scene, "Build")
    log = page.get_by_role("log", name="Build log")
    launch = page.get_by_role("button", name="Launch a computer")
    expect(build.get_by_role("status")).to_have_text("not built")
    expect(launch).to_be_disabled()
    build.get_by_role("button", name="Build", exact=True).click()
    expect(log).to_contain_text("the template is ready")
    expect(build.get_by_role("status")).to_have_text("ready")
    expect(build.get_by_role("list", name="Phases")).to_contain_text("Ready")
    expect(launch).to_be_enabled()
    expect(page.get_by_label("Definition file")).to_contain_text("inline: from the template")
    scene.axe()
    scene.shots("template")

    # What the page shows as YAML is the same file with the next version, which is published, built at once, and deleted.
    page.get_by_role("link", name="New version").click()
    expect(page.get_by_text("The file is valid.")).to_be_visible()
    expect(page.get_by_role("textbox", name="Definition file")).to_contain_text("version: 1.0.1")
    page.get_by_role("button", name="Publish").click()
    page.wait_for_url("**/console/templates/default/note-desk/1.0.1")
    expect(page.get_by_role("navigation", name="Versions").get_by_role("link")).to_have_count(2)
    expect(build.get_by_role("status")).to_have_text("ready")
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Delete this version").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the template").click()
    page.wait_for_url("**/console/templates")
    closed(page)
    page.goto("/console/templates/default/note-desk")
    expect(page.get_by_role("navigation", name="Versions").get_by_role("link")).to_have_count(1)

    # A build that is over is read again from its first line.
    expect(log).to_contain_text(re.compile(r"\S"))
    launch.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name").fill("launched")
    dialog.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(re.compile("/console/computers/[0-9a-f-]{36}"))
    made = next(it for it in scene.api("GET", "/computers?name=launched")["computers"])
    assert made["id"] in page.url, page.url
    assert made["template_ref"] == "default/note-desk@1.0.0", made
    output = scene.api("POST", f"/computers/{made['id']}/bash", {"command": "cat /opt/note.txt; echo; /opt/run.sh"})["output"]
    assert output.split("\n")[:3] == ["from the template", "a: b", "end"], output
    passwords(scene, made["id"])
    scene.api("DELETE", f"/computers/{made['id']}")


def passwords(scene: Scene, other: str) -> None:
    """What the settings of one computer show is not there in those of another."""
    page = scene.page
    own = f"/console/computers/{scene.computer['id']}/settings"
    show = part(scene, "Password").get_by_role("button", name="Show the password")
    page.goto(own)
    expect(show).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Page or computer").fill("launched")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/console/computers/{other}")
    closed(page)
    page.get_by_role("tab", name="Settings").click()
    page.wait_for_url(f"**/console/computers/{other}/settings")
    show.click()
    expect(part(scene, "Password").get_by_role("note")).to_have_count(1)
    # Two pages back at once, as by the list of the browser's button: from settings to settings.
    page.evaluate("history.go(-2)")
    page.wait_for_url(f"**{own}")
    expect(page.get_by_role("heading", name=scene.computer["name"], level=1)).to_be_visible()
    expect(show).to_be_visible()
    expect(part(scene, "Password").get_by_role("note")).to_have_count(0)


def cancel(scene: Scene) -> None:
    """Lines of a build are on the page while it goes on, and it is cancelled."""
    page = scene.page
    document = {
        "api_version": "hotdesk/v1",
        "name": "slow-desk@1.0.0",
        "hardware": {"cpu": 1, "ram_gb": 4},
        "build": {"run": ["echo first line; sleep 600"]},
    }
    scene.api("POST", "/templates?auto_build=true", document)
    page.goto("/console/templates/default/slow-desk")
    build = part(scene, "Build")
    expect(page.get_by_role("log", name="Build log")).to_contain_text("first line")
    expect(build.get_by_role("status")).to_have_text("building")
    build.get_by_role("button", name="Cancel the build").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the build").click()
    expect(build.get_by_label("Why the build failed")).to_have_text("the build was cancelled")
    expect(build.get_by_role("button", name="Build again")).to_be_visible()
    closed(page)
    scene.api("DELETE", "/templates/default/slow-desk/1.0.0")


def take_snapshot(scene: Scene) -> dict:
    """Takes the only snapshot of the computer."""
    page = scene.page
    page.goto(f"/console/computers/{scene.computer['id']}/snapshots")
    expect(page.get_by_text("No snapshot yet")).to_be_visible()
    page.get_by_role("button", name="Create a snapshot").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name").fill("before")
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("button", name="Roll back to before")).to_be_enabled()
    (taken,) = scene.api("GET", f"/computers/{scene.computer['id']}/snapshots")["snapshots"]
    assert taken["name"] == "before", taken
    return taken


def snapshots(scene: Scene) -> None:
    page = scene.page
    scene.bash("echo first >/root/note; sync")
    # A snapshot does not wait for the picture of a busy computer: then it is taken again.
    for _ in range(5):
        taken = take_snapshot(scene)
        if taken["has_picture"]:
            break
        scene.api("DELETE", f"/computers/{scene.computer['id']}/snapshots/{taken['id']}")
    assert taken["has_picture"], taken
    back = page.get_by_role("button", name="Roll back to before")
    picture = page.get_by_role("img", name="Screen in before")
    expect(picture).to_be_visible()
    assert 0 < picture.evaluate("it => it.decode().then(() => it.naturalWidth)") <= 480
    scene.axe()
    scene.shots("snapshots")

    scene.bash("echo second >/root/note; touch /root/other")
    back.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("is lost")
    dialog.get_by_role("button", name="Roll back", exact=True).click()
    expect(page.get_by_text(re.compile("desk is rolled back"))).to_be_visible()
    output = scene.bash("cat /root/note; ls /root/other 2>/dev/null || echo gone")
    assert output.split() == ["first", "gone"], output

    page.get_by_role("button", name="More actions on before").click()
    page.get_by_role("menuitem", name="Delete").click()
    dialog.get_by_role("button", name="Delete the snapshot").click()
    expect(page.get_by_text("No snapshot yet")).to_be_visible()


def settings(scene: Scene) -> None:
    page = scene.page
    path = f"/computers/{scene.computer['id']}"
    other = scene.api("POST", "/workspaces", {"name": "second"})
    page.goto(f"/console{path}/settings")

    name = part(scene, "Name")
    name.get_by_role("textbox").fill("renamed desk")
    name.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", name="renamed desk", level=1)).to_be_visible()
    assert scene.api("GET", path)["name"] == "renamed desk"
    expect(part(scene, "SSH")).to_contain_text("hotdesk ssh 'renamed desk'")

    size = part(scene, "Size")
    wanted = 2 if scene.computer["cpu"] != 2 else 1
    size.get_by_role("combobox", name="Processors").select_option(str(wanted))
    size.get_by_role("button", name="Resize").click()
    expect(page.get_by_text(f"The computer has {wanted} vCPU")).to_be_visible()
    assert scene.api("GET", path)["cpu"] == wanted

    stop = part(scene, "Auto-stop")
    stop.get_by_role("spinbutton", name="Minutes without use").fill("45")
    stop.get_by_role("button", name="Save").click()
    expect(page.get_by_text("after 45 minutes")).to_be_visible()
    assert scene.api("GET", path)["auto_stop_minutes"] == 45

    egress = part(scene, "Egress policy")
    egress.get_by_role("combobox", name="The computer reaches").select_option("allow")
    rules = egress.get_by_role("textbox", name="Destinations, one on each line")
    rules.fill("example.com\nhttps://example.org/")
    expect(egress.get_by_text("Line 2: write the name alone")).to_be_visible()
    save = egress.get_by_role("button", name="Save the policy")
    expect(save).to_be_disabled()
    rules.fill("example.com\n*.example.org\n192.0.2.0/24")
    save.click()
    expect(page.get_by_text("The policy counts from now on")).to_be_visible()
    policy = scene.api("GET", f"{path}/egress-policy")["egress_policy"]
    assert policy["mode"] == "allow" and set(policy["rules"]) == {"example.com", "*.example.org", "192.0.2.0/24"}, policy

    workspace = part(scene, "Workspace")
    workspace.get_by_role("combobox", name="In the workspace").select_option(other["id"])
    workspace.get_by_role("button", name="Move").click()
    expect(page.get_by_text("The computer is in second now")).to_be_visible()
    assert scene.api("GET", path)["workspace_id"] == other["id"]

    saved = part(scene, "Save as a template")
    saved.get_by_role("textbox", name="Name of the template").fill("kept")
    saved.get_by_role("button", name="Save as a template").click()
    expect(page.get_by_text("default/kept@1.0.0 is saved and can be launched")).to_be_visible()
    assert scene.api("GET", "/templates/default/kept/1.0.0")["status"] == "ready"

    password = part(scene, "Password")
    expect(password.get_by_role("note")).to_have_count(0)
    password.get_by_role("button", name="Show the password").click()
    expect(password.get_by_role("note")).to_have_text(scene.api("GET", f"{path}/vnc-password")["password"])
    password.get_by_role("button", name="Hide the password").click()
    expect(password.get_by_role("note")).to_have_count(0)

    test = part(scene, "Self-test")
    test.get_by_role("button", name="Run the self-test").click()
    expect(test.get_by_role("row", name=re.compile("^bash passed"))).to_be_visible(timeout=SELF_TEST)
    scene.axe()
    scene.shots("computer-settings")

    part(scene, "Delete").get_by_role("button", name="Delete the computer").click()
    dialog = page.get_by_role("dialog")
    delete = dialog.get_by_role("button", name="Delete the computer")
    expect(delete).to_be_disabled()
    dialog.get_by_role("textbox").fill("renamed desk")
    delete.click()
    page.wait_for_url("**/console")
    assert all(it["id"] != scene.computer["id"] for it in scene.api("GET", "/computers")["computers"])


def flow(scene: Scene) -> None:
    catalogue(scene)
    write(scene)
    build_and_launch(scene)
    cancel(scene)
    snapshots(scene)
    settings(scene)


if __name__ == "__main__":
    run(flow)
