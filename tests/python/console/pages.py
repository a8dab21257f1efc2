"""Pages that the service renders: set-up, sign-in, settings, approval, consent, claim and invitations.

Each is opened by a person as the page before leads there, checked by axe, and kept as a picture in light, dark and on a phone.
"""

import json
import urllib.parse
import urllib.request

from playwright.sync_api import Page, expect
from scene import Scene, run

ADDRESS = "ada@example.org"
PASSWORD = "correct horse battery staple"
# RFC 7636 appendix B.
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
REDIRECT = "https://app.example/cb"
SETTINGS = {
    "/settings": "Settings",
    "/settings/sign-in": "Sign-in",
    "/settings/sessions": "Sessions",
    "/settings/workspaces": "Workspaces",
    "/settings/keys": "API keys",
    "/settings/connections": "Connections",
}


def post(scene: Scene, path: str, body: dict, key: str | None = None) -> dict:
    """A request of a program, with its own key or without one."""
    request = urllib.request.Request(scene.url + path, json.dumps(body).encode(), method="POST")
    request.add_header("Content-Type", "application/json")
    if key:
        request.add_header("Authorization", "Bearer " + key)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def look(scene: Scene, page: Page, heading: str, name: str) -> None:
    """Checks and keeps a page, which must have this heading."""
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    scene.axe(page)
    scene.shots(f"page-{name}", page)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def sets_up(scene: Scene) -> Page:
    """A new service leads to its set-up; returns the page of the operator, who is signed in then."""
    page = scene.new_page()
    page.goto("/")
    page.wait_for_url("**/set-up")
    look(scene, page, "Set up hotdesk", "set-up")
    for key in ("sk_live_wrong", scene.key):
        page.get_by_label("API key").fill(key)
        page.get_by_label("E-mail").fill(ADDRESS)
        page.get_by_label("Name", exact=True).fill("Ada")
        page.get_by_label("New password").fill(PASSWORD)
        press(page, "Set up")
        if key != scene.key:
            expect(page.get_by_role("alert")).not_to_be_empty()
            look(scene, page, "Set up hotdesk", "set-up-refused")
    page.wait_for_url("**/console")
    return page


def invites(scene: Scene, page: Page) -> None:
    page.goto("/settings/workspaces")
    page.get_by_label("Name", exact=True).fill("home")
    press(page, "Create")
    expect(page.get_by_role("heading", level=1)).to_have_text("home")
    page.get_by_label("E-mail address").fill("new@example.org")
    press(page, "Invite")
    link = page.get_by_role("status").locator(".code").inner_text()
    look(scene, page, "home", "workspace")
    guest = scene.new_page()
    guest.goto(link)
    expect(guest.get_by_role("button", name="Create an account and join")).to_be_visible()
    look(scene, guest, "Invitation", "invitation")
    guest.context.close()
    page.goto(link)
    expect(page.get_by_role("alert")).to_contain_text("another address")
    look(scene, page, "Invitation", "invitation-other")


def looks_at_settings(scene: Scene, page: Page) -> None:
    for path, heading in SETTINGS.items():
        page.goto(path)
        look(scene, page, heading, path.strip("/").replace("/", "-"))
    page.goto("/settings/keys")
    page.get_by_label("Name", exact=True).fill("ci")
    press(page, "Create")
    expect(page.get_by_role("status")).to_contain_text("Copy it now")
    look(scene, page, "API keys", "key-made")
    page.goto("/settings/sign-in")
    page.get_by_label("Name of the new passkey").fill("laptop")
    page.get_by_label("Current password").fill(PASSWORD)
    press(page, "Add a passkey")
    look(scene, page, "Add a passkey", "passkey-new")
    page.goto("/settings/sign-in/authenticator")
    look(scene, page, "Authenticator app", "authenticator")


def approves_a_program(scene: Scene, page: Page) -> None:
    started = post(scene, "/api/cli/auth/start", {"client": "hotdesk", "hostname": "buildbox"})
    page.goto(started["verification_uri"])
    look(scene, page, "Approve a program", "approve-code")
    page.get_by_label("The code that the program shows").fill(started["user_code"])
    press(page, "Continue")
    expect(page.get_by_text("buildbox", exact=True)).to_be_visible()
    look(scene, page, "Approve a program", "approve")
    press(page, "Approve")
    look(scene, page, "Approved", "approved")
    page.goto("/cli/approve?code=BBBB-BBBB")
    expect(page.get_by_role("alert")).not_to_be_empty()
    expect(page.get_by_role("link", name="go to the start page")).to_be_visible()
    scene.axe(page)
    scene.shots("page-approve-unknown", page)


def is_asked_for_consent(scene: Scene, page: Page) -> None:
    client = post(scene, "/oauth/register", {"client_name": "Pilot", "redirect_uris": [REDIRECT]})
    asked = {
        "response_type": "code",
        "client_id": client["client_id"],
        "redirect_uri": REDIRECT,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "scope": "mcp:tools",
        "state": "s",
        "resource": scene.url + "/mcp",
    }
    page.goto("/oauth/authorize?" + urllib.parse.urlencode(asked))
    expect(page.get_by_label("Workspace that it may use")).to_be_visible()
    look(scene, page, "Allow access?", "consent")


def takes_an_account_over(scene: Scene, page: Page) -> None:
    made = post(scene, "/api/agent-accounts", {"name": "research"})
    workspace = post(scene, "/api/workspaces", {"name": "work"}, made["key"])
    post(scene, "/api/computers", {"workspace_id": workspace["id"], "name": "desk"}, made["key"])
    page.goto(made["claim_url"])
    expect(page.get_by_role("checkbox").nth(1)).to_be_checked()
    look(scene, page, "Take over an agent's account", "claim")
    press(page, "Take over")
    look(scene, page, "Taken over", "claimed")


def signs_in_again(scene: Scene, page: Page) -> None:
    page.goto("/settings")
    press(page, "Sign out")
    page.wait_for_url("**/sign-in")
    look(scene, page, "Sign in", "sign-in")
    for password in ("wrong password", PASSWORD):
        page.get_by_label("E-mail").fill(ADDRESS)
        page.get_by_label("Password").fill(password)
        press(page, "Sign in")
        if password != PASSWORD:
            expect(page.get_by_role("alert")).to_contain_text("is not right")
            look(scene, page, "Sign in", "sign-in-refused")
    page.wait_for_url("**/console")
    page.goto("/sign-in/passkey")
    look(scene, page, "Sign in", "sign-in-passkey")
    page.goto("/sign-in/link")
    expect(page.get_by_role("status")).to_contain_text("not complete")
    look(scene, page, "Sign in", "sign-in-link")
    page.goto("/nothing")
    look(scene, page, "Not found", "not-found")


def flow(scene: Scene) -> None:
    page = scene.page = sets_up(scene)
    looks_at_settings(scene, page)
    approves_a_program(scene, page)
    invites(scene, page)
    is_asked_for_consent(scene, page)
    takes_an_account_over(scene, page)
    signs_in_again(scene, page)


if __name__ == "__main__":
    run(flow)
