"""Host: the operator sees resources, engines, checks and leftovers, and others are told why they do not."""

import re

from playwright.sync_api import expect, Locator, Page, Route
from scene import closed, run, Scene

# Milliseconds that a thorough report of the service takes at most (src/controller/background/host_report.rs).
THOROUGH = 180_000


def reach(page: Page) -> None:
    """By the navigation, and by the palette."""
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Host", exact=True).click()
    expect(page).to_have_url(re.compile("/console/host$"))
    expect(page.get_by_role("heading", name="Host", level=1)).to_be_visible()
    page.goto("/console/audit")
    expect(page.get_by_role("heading", name="Audit log", level=1)).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Page or computer").fill("host")
    # The palette offers it only when it knows that the person is the operator.
    expect(page.get_by_role("option", name="Host")).to_be_visible()
    page.keyboard.press("Enter")
    closed(page)
    expect(page).to_have_url(re.compile("/console/host$"))


def check_row(page: Page, name: str) -> Locator:
    """The row of a check; its cell also has the isolations that it is for."""
    cell = page.get_by_role("cell", name=re.compile(f"^{re.escape(name)}( for .*)?$"))
    return page.get_by_role("table", name="Checks").get_by_role("row").filter(has=cell)


def report(scene: Scene) -> None:
    page, found = scene.page, scene.api("GET", "/operator/host")
    engine = found["engines"][0]
    engines = page.get_by_role("table", name="Engines")
    expect(engines.get_by_role("cell", name=f"{engine['isolation']} (default)", exact=True)).to_be_visible()
    suspends = "yes" if engine["abilities"]["suspend"] else "no"
    expect(engines.get_by_role("row").nth(1).get_by_role("cell").nth(2)).to_have_text(suspends)
    capacity = page.get_by_role("region", name="Capacity")
    expect(capacity.get_by_role("meter", name=re.compile("^Memory in use: .* of "))).to_be_visible()
    expect(capacity.get_by_role("meter", name=re.compile("^Disk in use: .* of "))).to_be_visible()
    expect(capacity.get_by_text("1 of 1 run", exact=True)).to_be_visible()
    for check in found["checks"]:
        row = check_row(page, check["name"])
        expect(row.get_by_role("cell", name=check["state"], exact=True)).to_be_visible()
    # Other tests share the host, and may have left something.
    expect(page.get_by_role("region", name="Leftovers")).to_be_visible()
    scene.axe()
    scene.shots("host")


def slow_checks(scene: Scene) -> None:
    page = scene.page
    # It is slow, and the computer proves that it is ok.
    runtime = check_row(page, "OCI runtime")
    expect(page.get_by_text(re.compile("Not run, because they take longer: .*OCI runtime"))).to_be_visible()
    expect(runtime).to_have_count(0)
    page.get_by_role("button", name="Run all checks", exact=True).click()
    expect(page.get_by_text(re.compile("The slower checks ran"))).to_be_visible(timeout=THOROUGH)
    expect(runtime.get_by_role("cell", name="ok", exact=True)).to_be_visible()


def change(scene: Scene) -> None:
    """The page follows the host by itself."""
    page = scene.page
    scene.api("POST", f"/computers/{scene.computer['id']}/stop")
    expect(page.get_by_role("region", name="Capacity").get_by_text("0 of 1 run", exact=True)).to_be_visible()


def others(scene: Scene) -> None:
    """Another account. The service refuses it itself (tests/it/access/operator_host.rs)."""
    page = scene.other_page()

    def as_other(route: Route) -> None:
        answer = route.fetch()
        issued = answer.json()
        issued["person"]["is_operator"] = False
        route.fulfill(response=answer, json=issued)

    page.route("**/console/token", as_other)
    page.goto("/console/host")
    expect(page.get_by_role("heading", name="Only the operator of the service sees its host")).to_be_visible()
    pages = page.get_by_role("navigation", name="Pages")
    expect(pages.get_by_role("link", name="Audit log", exact=True)).to_be_visible()
    expect(pages.get_by_role("link", name="Host", exact=True)).to_have_count(0)


def flow(scene: Scene) -> None:
    reach(scene.page)
    report(scene)
    slow_checks(scene)
    change(scene)
    others(scene)


run(flow)
