#!/usr/bin/env python3
"""Templates: time of builds and launches, and disk of launches, beside a boot that does the same steps itself.

usage: templates.py HOTDESK_BINARY IMAGE_FOLDER

Of the first build, of one after a change of the last step and of one after a change of a service it prints the phases of the log, and
those of each computer of the two rebuilds (`src/base/time/phase.rs`).

The template has 300 MB of files and ten services. Nothing is downloaded for it: its figures do not depend on a network. A
launch is usable when its services run, a command has run, and its desktop looks as a second later. The launch of `system/browser`
is usable when also the DevTools of its browser answer. Its build needs registries of packages.
"""

import json
import os
import subprocess
import time
from datetime import datetime

from controller import RUNC, Controller, RequestFailed
from lifecycle import RUNSC
from ready import GVISOR, Host
from support import QUICK, Table, arguments
from waterfall import LOG, LOG_SECONDS

DATA_MB = 30 if QUICK else 300
SERVICES = 10
LAUNCHES = 4
BROWSER = "system/browser@1.0.0"
DEVTOOLS_ANSWER = "curl -sf -o /dev/null http://127.0.0.1:9222/json/version"
# Most milliseconds of a launch with its browser open, and of four at once.
BROWSER_MS, BROWSERS_MS = 800, 1600
DISK_LAUNCHES = 3 if QUICK else 20
BUILD_SECONDS = 600
# Templates that are built before the launches over an engine with memory, and boot snapshots: of them, the browser and the plain size.
BUILT = 4
KEPT = f"[boot_snapshots]\nkeep = {BUILT + 2}\n"
# Steps of the template; a person without templates runs them in each new computer.
STEPS = [f"head -c {DATA_MB}000000 /dev/urandom >/opt/packages",
         "for n in $(seq 2000); do echo $n >/opt/file-$n; done"]
START_SERVICES = f"for n in $(seq {SERVICES}); do setsid sleep infinity >/dev/null 2>&1 </dev/null & done"


def definition(version, last, prestart=False, service="exec sleep infinity"):
    services = [{"name": f"s{n}", "run": service} for n in range(SERVICES)]
    return {"api_version": "hotdesk/v1", "name": f"bench@{version}", "apps": [{"name": "app", "services": services, "prestart": prestart}],
            "build": {"run": [*STEPS, last]}}


def build(host, document):
    """Publishes and builds a document. Returns its reference and the seconds of the build."""
    ref = host.api("POST", "/templates", document)["ref"]
    path = "/templates/" + ref.replace("@", "/") + "/build"
    host.api("POST", path)
    return ref, wait_for_build(host, path)


def wait_for_build(host, path):
    """Returns the seconds of a build that was begun."""
    until = time.time() + BUILD_SECONDS
    while (status := host.api("GET", path))["status"] == "building":
        if time.time() > until:
            raise RequestFailed(f"the build takes more than {BUILD_SECONDS} s")
        time.sleep(0.1)
    if status["status"] != "ready":
        raise RequestFailed(f"the build failed: {status.get('error')}")
    return status["build_time_ms"] / 1000


def seconds(timestamp):
    """Unix seconds of a time in ISO 8601."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def log_phases(host, ref):
    """The phases of the last build of a template in their order, each with its seconds until the next one begins."""
    stream = host.api.raw("GET", "/templates/" + ref.replace("@", "/") + "/build/events").decode()
    entries = [json.loads(line[len("data: "):]) for line in stream.splitlines() if line.startswith("data: ")]
    begins = []
    for entry in entries:
        if not begins or begins[-1][0] != entry["phase"]:
            begins.append((entry["phase"], seconds(entry["ts"])))
    ends = [at for _, at in begins[1:]] + [seconds(entries[-1]["ts"])]
    return [(phase, end - begin) for (phase, begin), end in zip(begins, ends)]


def machine_phases(host, since):
    """The phases of the computers in the controller's log from an offset on: the number of the computer, the phase, its seconds."""
    time.sleep(LOG_SECONDS)
    with open(f"{host.controller.folder}/log", "rb") as log:
        log.seek(since)
        lines = [json.loads(line) for line in log if line.startswith(b"{")]
    numbers, found = {}, []
    for fields in (line["fields"] for line in lines):
        if "phase" in fields and "computer" in fields:
            number = numbers.setdefault(fields["computer"], len(numbers) + 1)
            found.append((number, fields["phase"], fields["ms"] / 1000))
    return found


def rebuild(host, label, document):
    """Builds a change, and adds rows with its phases, and those of its computers. Returns the seconds."""
    since = os.path.getsize(f"{host.controller.folder}/log")
    ref, took = build(host, document)
    host.table.row(f"{label} (s)", took, None, None)
    for phase, part in log_phases(host, ref):
        host.table.row(f"{label}: {phase} (s)", part, None, None)
    for number, phase, part in machine_phases(host, since):
        host.table.row(f"{label}: computer {number}: {phase} (s)", part, None, None)
    return took


def until_services_run(api, computer):
    """Waits until all services of a computer run."""
    while any(service["status"] != "running" for service in api("GET", f"/computers/{computer}/services")["services"]):
        time.sleep(0.005)


def disk_mb(folder):
    """Megabytes on the disk. The agent's executable is one file with a link in each machine."""
    ran = subprocess.run(["du", "-s", "--block-size=1", "--exclude=agent", folder], check=True, stdout=subprocess.PIPE, text=True)
    return int(ran.stdout.split()[0]) / 1e6


def measure(host, has_memory):
    table, api = host.table, host.api
    ref, took = build(host, definition("1.0.0", "true"))
    table.row(f"build with {DATA_MB} MB and {SERVICES} services (s)", took, None, None)
    for phase, part in log_phases(host, ref):
        table.row(f"build: {phase} (s)", part, None, None)
    if has_memory:
        # It is made in the background, and would share the processors with the rebuild.
        host.wait_for("hotdesk_boot_snapshots", 1)
    took = rebuild(host, "rebuild", definition("1.0.1", "echo changed >/opt/last"))
    table.goal("rebuild after a change of the last step, which takes no time", took, most=2, unit="s")
    if has_memory:
        host.wait_for("hotdesk_boot_snapshots", 2)
    rebuild(host, "rebuild of a service", definition("1.0.3", "echo changed >/opt/last", service="exec sleep 1000000"))

    def create(api_=api, template=None):
        body = {"workspace_id": host.workspace, "name": f"t{time.monotonic_ns()}"}
        return api_("POST", "/computers", body | ({"template_ref": template} if template else {}))["id"]

    def launch(api_=api, template=ref):
        computer = create(api_, template)
        until_services_run(api_, computer)
        return computer

    if has_memory:
        early, _ = build(host, definition("1.0.2", "true", prestart=True))
        # The first of a size boots. Each built template gets a boot snapshot of its own.
        host.remove(create())
        host.wait_for("hotdesk_boot_snapshots", BUILT + 1)
    plain = host.start("create without a template, until usable", None, create)
    launched = host.start("launch of the template, until usable", None, launch)
    table.goal("a launch, as multiple of a create", launched / plain, most=1.2, unit="times")
    host.at_once(f"{LAUNCHES} launches at once", None, LAUNCHES, launch)
    if has_memory:
        host.start("the same with prestart", None, lambda api_=api: launch(api_, early))

    def by_hand():
        computer = create()
        for step in [*STEPS, "true", START_SERVICES]:
            api("POST", f"/computers/{computer}/bash", {"command": step, "timeout": 120})
        return computer
    host.start("create, and the steps and services run in it by hand", None, by_hand)

    machines = os.path.join(host.controller.data, "machines")
    before = disk_mb(machines)
    grown, computers = [], []
    for _ in range(DISK_LAUNCHES):
        computers.append(launch())
        grown.append(disk_mb(machines) - before)
        before += grown[-1]
    table.row("disk of a launch (MB)", sum(grown) / len(grown), min(grown), max(grown))
    table.goal(f"disk of {DISK_LAUNCHES} launches, each", max(grown), most=10, unit="MB")
    host.remove(*computers)


def measure_browser(host):
    """The template of the service whose browser is open."""
    name, version = BROWSER.split("@")
    path = f"/templates/{name}/{version}/build"
    try:
        host.api("POST", path)
        wait_for_build(host, path)
    except RequestFailed as failure:
        host.table.skip("launch with a browser", str(failure)[:100])
        return
    host.wait_for("hotdesk_boot_snapshots", BUILT + 2)

    def launch(api=host.api):
        body = {"workspace_id": host.workspace, "name": f"b{time.monotonic_ns()}", "template_ref": BROWSER}
        computer = api("POST", "/computers", body)["id"]
        while True:
            answer = api("POST", f"/computers/{computer}/bash", {"command": DEVTOOLS_ANSWER})
            if answer["exit_code"] == 0:
                return computer
    host.start("launch with its browser open, until usable", BROWSER_MS, launch)
    host.at_once(f"{LAUNCHES} such launches at once", BROWSERS_MS, LAUNCHES, launch)


def main():
    binary, image = arguments("templates.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    for name, lines in (("runc", RUNC), ("gVisor", GVISOR)):
        table = Table(f"templates over {name} (ms)", "median", "best", "worst")
        if lines == GVISOR and not os.path.exists(RUNSC):
            table.skip("all", f"{RUNSC} does not exist (packaging/dev/deps bench)")
            continue
        has_memory = lines == GVISOR
        with Controller(binary, image, LOG + lines + (KEPT if has_memory else "")) as controller:
            host = Host(controller, table)
            measure(host, has_memory)
            if has_memory:
                measure_browser(host)
        table.save()


if __name__ == "__main__":
    main()
