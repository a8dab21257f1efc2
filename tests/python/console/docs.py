"""Documentation: pages, links between them, search without a server, and the API reference with its form."""

import re

from playwright.sync_api import expect
from scene import Scene, run


def read(scene: Scene) -> None:
    page = scene.page
    page.goto("/docs")
    expect(page.get_by_role("heading", name="Documentation", level=1)).to_be_visible()
    scene.axe()
    scene.shots("docs")
    page.get_by_role("navigation", name="Pages of the documentation").get_by_role("link", name="Quick start", exact=True).click()
    expect(page).to_have_url(re.compile("/docs/quick-start$"))
    expect(page.get_by_role("heading", name="Quick start", level=1)).to_be_visible()
    scene.axe()
    page.get_by_role("button", name="Copy the code").first.click()
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").strip() == "make run"
    page.get_by_role("navigation", name="On this page").get_by_role("link", name="Clean up").click()
    expect(page).to_have_url(re.compile("#clean-up$"))
    expect(page.locator("#clean-up")).to_be_in_viewport()

    # A link with a fragment to another page, and the way back.
    link = page.get_by_role("article").locator('a[href^="/docs/"][href*="#"]').first
    target = link.get_attribute("href")
    link.click()
    expect(page).to_have_url(re.compile(re.escape(target) + "$"))
    anchor = target.split("#")[1]
    expect(page.locator(f'[id="{anchor}"]')).to_be_in_viewport()
    page.go_back()
    expect(page.get_by_role("heading", name="Quick start", level=1)).to_be_visible()

    # What is outside of the documentation is no link.
    page.goto("/docs")
    article = page.get_by_role("article")
    expect(article.get_by_text("ARCHITECTURE.md")).to_be_visible()
    expect(article.locator('a[href*="ARCHITECTURE"]')).to_have_count(0)
    page.goto("/docs/no-such-page")
    expect(page.get_by_role("heading", name="The documentation has no such page")).to_be_visible()


def search(scene: Scene) -> None:
    page = scene.page
    page.goto("/docs")
    field = page.get_by_label("Search the documentation")
    field.fill("suspend")
    results = page.get_by_role("region", name="Results")
    found = results.get_by_role("link", name=re.compile("suspend", re.IGNORECASE)).first
    expect(found).to_be_visible()
    expect(page).to_have_url(re.compile("[?&]q=suspend"))
    scene.axe()
    # From here on the service is not asked.
    page.context.set_offline(True)
    field.fill("snapshot")
    expect(results.get_by_role("link", name=re.compile("snapshot", re.IGNORECASE)).first).to_be_visible()
    page.context.set_offline(False)
    field.fill("suspend")
    place = results.locator('a[href^="/docs/lifecycle#"]').filter(has_text=re.compile("suspend", re.IGNORECASE)).first
    expect(place).to_be_visible()
    anchor = place.get_attribute("href").split("#")[1]
    place.click()
    expect(page).to_have_url(re.compile(f"/docs/lifecycle#{re.escape(anchor)}$"))
    expect(page.locator(f'[id="{anchor}"]')).to_be_in_viewport()


def reference(scene: Scene) -> None:
    page = scene.page
    page.goto("/docs/reference")
    page.get_by_label("Find an operation").fill("get computers lists the computers")
    page.get_by_role("link", name="GET /computers", exact=True).click()
    expect(page).to_have_url(re.compile("/docs/reference/computers#computers_list$"))
    operation = page.get_by_role("region", name="GET /computers", exact=True)
    expect(operation).to_be_in_viewport()
    operation.get_by_role("button", name="Try GET /computers", exact=True).click()
    operation.get_by_role("button", name="Send", exact=True).click()
    answer = operation.get_by_role("region", name="Answer")
    expect(answer).to_contain_text("Status 200")
    expect(answer).to_contain_text(f'"{scene.computer["name"]}"')
    expect(answer).to_contain_text("X-Request-Id")
    scene.axe()
    scene.shots("reference")

    # A failure is an answer, too, and a path is filled in.
    operation = page.get_by_role("region", name="GET /computers/{id}", exact=True)
    operation.get_by_role("button", name="Try GET /computers/{id}", exact=True).click()
    expect(operation.get_by_role("button", name="Fill in id")).to_be_disabled()
    operation.get_by_label("id (path)").fill("00000000-0000-4000-8000-000000000000")
    operation.get_by_role("button", name="Send", exact=True).click()
    expect(operation.get_by_role("region", name="Answer")).to_contain_text("Status 404")

    # What changes something asks first.
    operation = page.get_by_role("region", name="DELETE /computers/{id}", exact=True)
    operation.get_by_role("button", name="Try DELETE /computers/{id}", exact=True).click()
    operation.get_by_label("id (path)").fill(scene.computer["id"])
    operation.get_by_role("button", name="Send", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(operation.get_by_role("region", name="Answer")).to_be_hidden()
    assert scene.api("GET", f"/computers/{scene.computer['id']}")["id"] == scene.computer["id"]


def flow(scene: Scene) -> None:
    read(scene)
    search(scene)
    reference(scene)


if __name__ == "__main__":
    run(flow)
