"""Settings and the audit log: what is done in the pages has its effect, and the log shows it."""

import datetime
import re
import urllib.error
import urllib.request

from playwright.sync_api import Page, expect
from scene import closed, run, Scene

WORKSPACE = "flow workspace"
ADDRESS = "ada@example.org"


def status_with(scene: Scene, key: str) -> int:
    """Status of a request with a key."""
    request = urllib.request.Request(f"{scene.url}/api/user/profile", headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def agree(page: Page, action: str) -> None:
    """Answers the question before something that cannot be undone."""
    page.get_by_role("dialog").get_by_role("button", name=action, exact=True).click()
    closed(page)


def keys(scene: Scene) -> None:
    page = scene.page
    page.goto("/console/settings/keys")
    page.get_by_role("button", name="Create key", exact=True).click()
    dialog = page.get_by_role("dialog", name="Create an API key")
    dialog.get_by_label("Name", exact=True).fill("flow key")
    dialog.get_by_role("button", name="Create key", exact=True).click()
    shown = page.get_by_role("region", name='Key "flow key"')
    expect(shown).to_be_visible()
    key = shown.locator("code").inner_text().strip()
    assert key.startswith("sk_live_"), "the page shows the key"
    assert status_with(scene, key) == 200, "the key works"
    shown.get_by_role("button", name="Copy the key").click()
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == key
    scene.axe()
    shown.get_by_role("button", name="I have it").click()
    expect(shown).to_be_hidden()
    assert key not in page.content(), "the key is shown once"
    scene.shots("settings")

    page.get_by_role("button", name="Delete the key flow key").click()
    agree(page, "Delete key")
    expect(page.get_by_role("cell", name="flow key", exact=True)).to_be_hidden()
    assert status_with(scene, key) == 401, "a deleted key is refused"


def secrets(scene: Scene) -> None:
    page = scene.page
    page.goto("/console/settings/secrets")
    page.get_by_role("button", name="Set secret", exact=True).click()
    dialog = page.get_by_role("dialog", name="Set a secret")
    dialog.get_by_label("Name", exact=True).fill("flow")
    expect(dialog.get_by_role("button", name="Set secret")).to_be_disabled()
    dialog.get_by_label("Name", exact=True).fill("FLOW_PASSWORD")
    dialog.get_by_label("Value", exact=True).fill("correct horse")
    dialog.get_by_role("button", name="Set secret").click()
    expect(page.get_by_role("cell", name="FLOW_PASSWORD", exact=True)).to_be_visible()
    page.reload()
    expect(page.get_by_role("cell", name="FLOW_PASSWORD", exact=True)).to_be_visible()
    assert "correct horse" not in page.content(), "a value is never shown again"
    assert "FLOW_PASSWORD" in [it["name"] for it in scene.api("GET", "/secrets")["secrets"]]
    scene.axe()


def join(scene: Scene, link: str) -> None:
    """Opens an invitation as somebody who has no account."""
    context = scene.page.context.browser.new_context()
    guest = context.new_page()
    guest.goto(link)
    guest.get_by_label("Name", exact=True).fill("Ada")
    guest.locator("input[type=password]").fill("a long password of Ada 17")
    guest.get_by_role("button", name="Create an account and join").click()
    guest.wait_for_url(lambda url: "/invitation" not in url)
    context.close()


def people(scene: Scene) -> None:
    page = scene.page
    page.goto("/console/settings/workspaces")
    page.get_by_role("button", name="Create workspace", exact=True).click()
    dialog = page.get_by_role("dialog", name="Create a workspace")
    dialog.get_by_label("Name", exact=True).fill(WORKSPACE)
    dialog.get_by_role("button", name="Create workspace").click()
    expect(page.get_by_role("cell", name=WORKSPACE, exact=True)).to_be_visible()
    scene.axe()

    page.get_by_role("link", name=f"Members of {WORKSPACE}").click()
    expect(page.get_by_label("Workspace", exact=True).locator("option:checked")).to_have_text(WORKSPACE)
    page.get_by_role("button", name="Invite", exact=True).click()
    dialog = page.get_by_role("dialog", name="Invite a person")
    dialog.get_by_label("E-mail address").fill(ADDRESS)
    dialog.get_by_role("button", name="Invite", exact=True).click()
    shown = page.get_by_role("region", name=f"Invitation of {ADDRESS}")
    expect(shown).to_be_visible()
    expect(page.get_by_role("button", name=f"Revoke the invitation of {ADDRESS}")).to_be_visible()
    join(scene, shown.locator("code").inner_text().strip())

    page.reload()
    page.get_by_label(f"Role of {ADDRESS}").select_option("viewer")
    expect(page.get_by_text(f"{ADDRESS} is now viewer")).to_be_visible()
    scene.axe()
    workspace = scene.api("GET", "/workspaces/by-name/flow%20workspace")
    members = scene.api("GET", f"/workspaces/{workspace['id']}/members")["members"]
    assert [it["role"] for it in members if it["email"] == ADDRESS] == ["viewer"]

    page.get_by_role("button", name=f"Remove {ADDRESS}").click()
    agree(page, "Remove member")
    expect(page.get_by_label(f"Role of {ADDRESS}")).to_be_hidden()
    members = scene.api("GET", f"/workspaces/{workspace['id']}/members")["members"]
    assert ADDRESS not in [it["email"] for it in members]


def clients(scene: Scene) -> None:
    page = scene.page
    page.goto("/console/settings/clients")
    page.get_by_role("button", name="Create client", exact=True).click()
    dialog = page.get_by_role("dialog", name="Create a client")
    dialog.get_by_label("Your id").fill("flow-17")
    dialog.get_by_label("Most computers").fill("1")
    dialog.get_by_role("button", name="Create client").click()
    page.get_by_role("button", name="I have it").click()
    page.get_by_role("link", name="flow-17", exact=True).click()
    usage = page.get_by_role("region", name="Usage of flow-17")
    expect(usage.get_by_role("img", name="Computer hours by month").locator("canvas")).to_be_visible()
    usage.get_by_role("button", name="Record AI spend").click()
    dialog = page.get_by_role("dialog", name="Record AI spend")
    dialog.get_by_label("Entry").fill("bill-1")
    dialog.get_by_label("US dollars").fill("1.5")
    dialog.get_by_role("button", name="Record", exact=True).click()
    expect(usage.get_by_text("$1.50 for AI models")).to_be_visible()
    with page.expect_download() as download:
        usage.get_by_role("button", name="Download CSV").click()
    assert "flow-17" in download.value.path().read_text()
    scene.axe()
    scene.shots("settings-clients")


def other_tabs(scene: Scene) -> None:
    page = scene.page
    page.goto("/console/settings/capacity")
    expect(page.get_by_role("meter", name=re.compile("^Computers: "))).to_be_visible()
    expect(page.get_by_role("cell", name=scene.computer["name"], exact=True)).to_be_visible()
    scene.axe()
    page.goto("/console/settings/sessions")
    expect(page.get_by_role("button", name=re.compile("^Sign out ")).first).to_be_visible()
    scene.axe()
    page.goto("/console/settings/streaming")
    page.get_by_role("button", name="Add connection").click()
    dialog = page.get_by_role("dialog", name="Add a stream connection")
    dialog.get_by_label("Name", exact=True).fill("flow channel")
    dialog.get_by_label("Server").fill("rtmp://192.0.2.1/app")
    dialog.get_by_label("Stream key").fill("example-key")
    dialog.get_by_role("button", name="Save connection").click()
    expect(page.get_by_role("cell", name="flow channel", exact=True)).to_be_visible()
    assert "example-key" not in page.content(), "the stream key is never shown again"
    scene.axe()


def audit(scene: Scene) -> None:
    page = scene.page
    page.goto("/console/audit")
    action = page.get_by_label("Action or target")
    rows = page.get_by_role("row")
    for word, route in (
        ("/secrets", "PUT /secrets/"),
        ("/keys", "POST /keys"),
        ("delete /keys", "DELETE /keys/"),
        ("/invite", "POST /workspaces/{id}/invite"),
        ("delete /members", "DELETE /workspaces/{id}/members"),
    ):
        action.fill(word)
        row = rows.filter(has_text=route).first
        expect(row).to_be_visible()
        expect(row).to_contain_text("done")
        assert re.search(r"\d{4}-\d\d-\d\dT", row.locator("time").get_attribute("datetime")), "times are exact"
    expect(rows.filter(has_text="/secrets/")).to_have_count(0)
    # The filters are in the address.
    expect(page).to_have_url(re.compile("[?&]what="))
    scene.axe()
    scene.shots("audit")

    page.get_by_role("button", name="Clear filters").click()
    page.get_by_label("Actor").fill("nobody@example.org")
    expect(page.get_by_role("heading", name="No entry matches")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_label("Workspace").select_option(label=WORKSPACE)
    expect(rows.filter(has_text="/invite").first).to_be_visible()
    expect(rows.filter(has_text="/secrets/")).to_have_count(0)
    page.get_by_role("button", name="Clear filters").click()
    tomorrow = datetime.datetime.now() + datetime.timedelta(days=1)
    page.get_by_label("From").fill(tomorrow.strftime("%Y-%m-%dT%H:%M"))
    page.get_by_label("From").blur()
    expect(page.get_by_role("heading", name="No entry matches")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="No entry matches")).to_be_visible()


def delete_workspace(scene: Scene) -> None:
    page = scene.page
    page.goto("/console/settings/workspaces")
    page.get_by_role("button", name=f"Actions on {WORKSPACE}").click()
    page.get_by_role("menuitem", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    delete = dialog.get_by_role("button", name="Delete workspace")
    expect(delete).to_be_disabled()
    dialog.get_by_role("textbox").fill(WORKSPACE)
    delete.click()
    closed(page)
    expect(page.get_by_role("cell", name=WORKSPACE, exact=True)).to_be_hidden()
    assert WORKSPACE not in [it["name"] for it in scene.api("GET", "/workspaces")["workspaces"]]


def signed_out(scene: Scene) -> None:
    """A page whose sign-in another client ended leads to the sign-in by itself, and from there back."""
    scene.page.goto("/console/audit")
    expect(scene.page.get_by_role("heading", name="Audit log")).to_be_visible()
    scene.api("DELETE", "/user/sessions")
    scene.page.wait_for_url("**/sign-in?next=%2Fconsole%2Faudit")


def flow(scene: Scene) -> None:
    keys(scene)
    secrets(scene)
    people(scene)
    clients(scene)
    other_tabs(scene)
    audit(scene)
    delete_workspace(scene)
    signed_out(scene)


if __name__ == "__main__":
    run(flow)
