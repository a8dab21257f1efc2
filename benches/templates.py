#!/usr/bin/env python3
"""Templates: time of builds and launches, and disk of launches, beside a boot that does the same steps itself.

usage: templates.py HOTDESK_BINARY IMAGE_FOLDER

The template has 300 MB of files and ten services. Nothing is downloaded: the figures do not depend on a network.
"""

import os
import subprocess
import time

from controller import RUNC, Controller
from lifecycle import RUNSC
from ready import GVISOR, Host
from steps import duration
from support import QUICK, Table, arguments, scaled

ROUNDS = scaled(10)
DATA_MB = 30 if QUICK else 300
SERVICES = 10
LAUNCHES = 4
DISK_LAUNCHES = 3 if QUICK else 20
BUILD_SECONDS = 600
# Steps of the template; a person without templates runs them in each new computer.
STEPS = [f"head -c {DATA_MB}000000 /dev/urandom >/opt/packages",
         "for n in $(seq 2000); do echo $n >/opt/file-$n; done"]


def definition(version, last):
    services = [{"name": f"s{n}", "run": "exec sleep infinity"} for n in range(SERVICES)]
    return {"api_version": "hotdesk/v1", "name": f"bench@{version}", "apps": [{"name": "app", "services": services}],
            "build": {"run": [*STEPS, last]}}


def build(host, document):
    """Publishes and builds a document. Returns its reference and the seconds of the build."""
    ref = host.api("POST", "/templates", document)["ref"]
    path = "/templates/" + ref.replace("@", "/") + "/build"
    host.api("POST", path)
    until = time.time() + BUILD_SECONDS
    while (status := host.api("GET", path))["status"] == "building":
        if time.time() > until:
            raise SystemExit(f"the build takes more than {BUILD_SECONDS} s")
        time.sleep(0.1)
    if status["status"] != "ready":
        raise SystemExit(f"the build failed: {status.get('error')}")
    return ref, status["build_time_ms"] / 1000


def disk_mb(folder):
    """Megabytes on the disk. The agent's executable is one file with a link in each machine."""
    ran = subprocess.run(["du", "-s", "--block-size=1", "--exclude=agent", folder], check=True, stdout=subprocess.PIPE, text=True)
    return int(ran.stdout.split()[0]) / 1e6


def measure(host, name, has_memory):
    table, api = host.table, host.api
    ref, seconds = build(host, definition("1.0.0", "true"))
    table.row(f"build with {DATA_MB} MB and {SERVICES} services (s)", seconds, None, None)
    _, seconds = build(host, definition("1.0.1", "echo changed >/opt/last"))
    table.goal("rebuild after a change of the last step, which takes no time", seconds, most=2, unit="s")

    def launch(api_=None, template=None):
        body = {"workspace_id": host.workspace, "name": f"t{time.monotonic_ns()}"}
        return (api_ or api)("POST", "/computers", body | ({"template_ref": template} if template else {}))["id"]

    if has_memory:
        # The first of a size boots; a boot snapshot of it is made afterwards.
        host.remove(launch())
        host.wait_for("hotdesk_boot_snapshots", 2)
    plain = host.start("create without a template, until usable", None, launch)
    launched = host.start("launch of the template, until usable", None, lambda: launch(template=ref))
    table.goal("a launch, as multiple of a create", launched / plain, most=1.2, unit="times")
    host.at_once(f"{LAUNCHES} launches at once", None, LAUNCHES, lambda other: launch(other, ref))

    def by_hand():
        computer = launch()
        for step in [*STEPS, "true"]:
            api("POST", f"/computers/{computer}/bash", {"command": step, "timeout": 120})
        host.remove(computer)
    table.durations("create, and the steps run in it by hand", [duration(by_hand) for _ in range(3)], None, None)

    machines = os.path.join(host.controller.data, "machines")
    before = disk_mb(machines)
    computers = [launch(template=ref) for _ in range(DISK_LAUNCHES)]
    table.goal(f"disk of {DISK_LAUNCHES} launches, each", (disk_mb(machines) - before) / DISK_LAUNCHES, most=10, unit="MB")
    host.remove(*computers)


def main():
    binary, image = arguments("templates.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    for name, lines in (("runc", RUNC), ("gVisor", GVISOR)):
        table = Table(f"templates over {name} (ms)", "median", "best", "worst")
        if lines == GVISOR and not os.path.exists(RUNSC):
            table.skip("all", f"{RUNSC} does not exist (packaging/dev/deps bench)")
            continue
        with Controller(binary, image, lines) as controller:
            measure(Host(controller, table), name, lines == GVISOR)
        table.save()


if __name__ == "__main__":
    main()
