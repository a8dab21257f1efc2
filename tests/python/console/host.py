"""Host: the operator sees resources, engines, checks and leftovers, and others are told why they do not.

The hosts of a cluster are answers of this flow: a controller with the embedded engines has one.
"""

import json
import re

from playwright.sync_api import expect, Locator, Page, Route, WebSocketRoute
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


def one_host(scene: Scene) -> None:
    """The embedded engines have one host: the page shows it alone, and a computer has nowhere to go."""
    page, computer = scene.page, scene.computer
    with page.expect_response("**/api/operator/hosts") as answered:
        page.reload()
    assert len(answered.value.json()["hosts"]) <= 1, answered.value.text()
    expect(page.get_by_role("region", name="Checks")).to_be_visible()
    expect(page.get_by_role("region", name="Hosts")).to_have_count(0)
    page.goto(f"/console/computers/{computer['id']}/terminal")
    page.get_by_role("button", name=f"More about {computer['name']}").click()
    expect(page.get_by_role("menuitem", name="Restart", exact=True)).to_be_visible()
    expect(page.get_by_role("menuitem", name=re.compile("^Move"))).to_have_count(0)
    page.goto("/console/host")


class Cluster:
    """Three hosts, of which one does not answer, as the API would tell of them."""

    def __init__(self, computer: dict) -> None:
        self.computer = computer
        self.changes: list[tuple[str, object]] = []
        self.hosts = {name: self.host(name) for name in ("m1", "m2", "m3")}
        self.hosts["m1"] |= {"computers": 2, "running": 1}
        self.hosts["m3"] |= {"status": "offline", "message": "It has not answered for 40 s.", "cpus": 0, "disk_mb": 0}

    @staticmethod
    def host(name: str) -> dict:
        sizes = {"memory_mb": 65536, "memory_free_mb": 32768, "disk_mb": 524288, "disk_free_mb": 262144}
        state = {"status": "online", "computers": 0, "running": 0, "image_present": True, "message": ""}
        return {"name": name, "engine": "incus", "cpus": 16} | sizes | state

    def answer(self, route: Route) -> None:
        request = route.request
        if request.method == "GET":
            route.fulfill(json={"hosts": list(self.hosts.values())})
            return
        path = request.url.partition("/api/operator")[2]
        self.changes.append((path, request.post_data_json))
        name, _, change = path.removeprefix("/hosts/").partition("/")
        if path.endswith("/move"):
            route.fulfill(json={"id": self.computer["id"], "host": "m2", "status": "running", "moving": False})
            return
        self.hosts[name]["status"] = {"drain": "draining", "restore": "online", "gone": "gone"}[change]
        route.fulfill(json=self.hosts[name])

    def live(self, socket: WebSocketRoute) -> None:
        """The live records, in which the computer is on the first host."""
        server = socket.connect_to_server()

        def placed(message: str | bytes) -> None:
            if isinstance(message, str) and json.loads(message)["type"] == "computer":
                record = json.loads(message)
                record["computer"]["host"] = "m1"
                message = json.dumps(record)
            socket.send(message)

        server.on_message(placed)


def many_hosts(scene: Scene) -> None:
    page, computer = scene.other_page(), scene.computer
    cluster = Cluster(computer)
    page.route(re.compile("/api/operator/hosts"), cluster.answer)
    page.route(re.compile("/api/operator/computers/.*/move$"), cluster.answer)
    page.route_web_socket(re.compile("/console/live"), cluster.live)
    page.goto("/console/host")

    table = page.get_by_role("table", name="Hosts", exact=True)

    def row(name: str) -> Locator:
        return table.get_by_role("row").filter(has=page.get_by_role("cell", name=re.compile(f"^{name}( |$)")))

    for name, status in (("m1", "online"), ("m2", "online"), ("m3", "offline")):
        expect(row(name).get_by_role("cell", name=status, exact=True)).to_be_visible()
    expect(row("m3")).to_contain_text("It has not answered for 40 s.")
    expect(row("m3").get_by_role("cell", name="unknown", exact=True)).to_have_count(2)
    expect(row("m1")).to_contain_text("34.4 GB of 68.7 GB free")

    # The computers of a host have an address.
    page.get_by_role("link", name="m1: 2 computers, 1 run").click()
    expect(page).to_have_url(re.compile(r"/console/host\?host=m1$"))
    there = page.get_by_role("table", name="Computers on m1")
    expect(there.get_by_role("link", name=computer["name"], exact=True)).to_be_visible()
    expect(page.get_by_text("Not shown here: 1 computer")).to_be_visible()
    scene.axe(page)
    scene.shots("hosts", page)
    there.get_by_role("button", name=f"Move {computer['name']}…").click()
    dialog = page.get_by_role("dialog", name=f"Move {computer['name']}")
    host = dialog.get_by_label("Host", exact=True)
    # Neither its own nor one that does not answer.
    expect(host.get_by_role("option")).to_have_text(["The service chooses", re.compile("^m2: ")])
    scene.axe(page)
    dialog.get_by_role("button", name="Move it").click()
    closed(page)
    expect(page.get_by_text(f"{computer['name']} is on m2.")).to_be_visible()
    moved = f"/computers/{computer['id']}/move"
    assert cluster.changes == [(moved, {})], cluster.changes

    row("m1").get_by_role("button", name="Drain…").click()
    page.get_by_role("dialog", name="Drain m1?").get_by_role("button", name="Drain it").click()
    expect(row("m1").get_by_role("cell", name="draining", exact=True)).to_be_visible()
    row("m1").get_by_role("button", name="Restore").click()
    expect(row("m1").get_by_role("cell", name="online", exact=True)).to_be_visible()

    # What would run a computer twice needs the name of the host typed in.
    expect(page.get_by_role("button", name="More about m2")).to_have_count(0)
    page.get_by_role("button", name="More about m3").click()
    page.get_by_role("menuitem", name="Confirm that it is gone…").click()
    question = page.get_by_role("dialog", name="Is m3 gone for good?")
    expect(question.get_by_role("button", name="It is gone")).to_be_disabled()
    question.get_by_role("textbox").fill("m3")
    question.get_by_role("button", name="It is gone").click()
    expect(row("m3").get_by_role("cell", name="gone", exact=True)).to_be_visible()
    gone = ("/hosts/m3/gone", {"confirm": "m3"})
    assert [path for path, _ in cluster.changes[1:3]] == ["/hosts/m1/drain", "/hosts/m1/restore"], cluster.changes
    assert cluster.changes[3:] == [gone], cluster.changes

    # A computer's own page offers the move, too.
    page.goto(f"/console/computers/{computer['id']}/terminal")
    page.get_by_role("button", name=f"More about {computer['name']}").click()
    page.get_by_role("menuitem", name="Move to another host…").click()
    host.select_option("m2")
    dialog.get_by_role("button", name="Move it").click()
    closed(page)
    assert cluster.changes[4:] == [(moved, {"host": "m2"})], cluster.changes
    page.context.close()


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
    one_host(scene)
    many_hosts(scene)
    change(scene)
    others(scene)


run(flow)
