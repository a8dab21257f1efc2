#!/usr/bin/env python3
"""Computers on an Incus cluster, beside the embedded engines, and beside `incus launch` and `incus move` by hand.

usage: incus.py HOTDESK_BINARY IMAGE_FOLDER

Starts a cluster of three members in network namespaces of this machine (packaging/dev/incus-cluster), which all share its
processors. One controller has the cluster, by the API of its first member; another has the embedded engines. A computer is measured
on that member and on another one. `/health` and the bare downloads are at the controller's socket of a computer, so that they are
figures of the transport alone. Everything is removed at the end, also after Ctrl+C.
"""

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from controller import Controller, RequestFailed, UnixConnection
from lifecycle import RUNSC
from steps import duration
from support import QUICK, RawClient, Table, arguments, scaled, timed

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../packaging/dev/incus-cluster")
# What a cluster needs (packaging/dev/deps bench).
PROGRAMS = ("/usr/libexec/incus/incusd", "/usr/bin/incus", "/usr/sbin/dnsmasq", "/usr/bin/btrfs", RUNSC)
MEMBERS = 3
# The member whose API the controller uses, and another one.
OWN, OTHER = "m1", "m2"
# Steps of a computer take seconds each on a cluster.
ROUNDS = 1 if QUICK else 3
REQUESTS, ROUND_TRIPS = scaled(60), scaled(400)
MEGABYTES = 100
# Goals of the transport to a computer on another member: milliseconds of a round trip, megabytes per second of a download.
ROUND_TRIP_GOAL, DOWNLOAD_GOAL = 0.8, 100
# Seconds of one step of a computer at most, and of a command of the cluster.
STEP_SECONDS, COMMAND_SECONDS = 300, 600
# Seconds until the kernel has ended what a member had.
LEFTOVER_SECONDS = 20
# Lines of a controller's log that are shown after a failure.
LOG_LINES = 20
EMBEDDED = f'[engines]\noffered = "sandbox, shared"\nrunsc = {json.dumps(RUNSC)}\n'
# The columns of each isolation: the embedded engine, and the cluster. runsc is gVisor's runtime.
ENGINES = {"shared": ("runc", "Incus"), "sandbox": ("runsc", "Incus+runsc")}
BY_HAND = "by hand"
CREATE, SUSPEND, RESUME = "create, until it is usable (ms)", "suspend (ms)", "resume, until it is usable (ms)"
MOVE, MOVE_STOPPED = "move while it runs, until it is usable (ms)", "move of a stopped one (ms)"
CLICK, SHOT, COMMAND = "click (ms)", "unchanged screenshot (ms)", "bash `true` (ms)"
DOWNLOAD, UPLOAD = "download (MB/s)", "upload (MB/s)"
ROUND_TRIP, BARE_DOWNLOAD = "/health at its socket (ms)", "download at its socket (MB/s)"
# Steps whose figure grows with the speed.
RATES = (DOWNLOAD, UPLOAD, BARE_DOWNLOAD)
USE = (CLICK, SHOT, COMMAND, DOWNLOAD, UPLOAD, ROUND_TRIP, BARE_DOWNLOAD)


def elsewhere(step):
    return f"{step}, on another member"


class Cluster:
    """A cluster with its files in a temporary folder; the end of the `with` removes it."""

    def __enter__(self):
        # Short: Incus makes sockets below it, whose paths have at most 107 bytes.
        self.folder = tempfile.mkdtemp(prefix="hdb-")
        # Roots of unprivileged instances are below it.
        os.chmod(self.folder, 0o755)
        try:
            self.run("up", str(MEMBERS))
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def run(self, *words, check=True):
        ran = subprocess.run([SCRIPT, self.folder, *words], check=check, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             text=True, timeout=COMMAND_SECONDS)
        return ran.stdout.strip()

    def incus(self, *words, check=True):
        return self.run("incus", "1", *words, check=check)

    def configuration(self):
        certificate, key = f"{self.folder}/client.crt", f"{self.folder}/client.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                        "2", "-subj", "/CN=hotdesk", "-keyout", key, "-out", certificate], check=True, stderr=subprocess.DEVNULL)
        self.run("add-client", certificate)
        settings = {"url": self.run("address"), "certificate_file": certificate, "key_file": key,
                    "fingerprint": self.run("fingerprint"), "pool": "local", "network": "desk0"}
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        return EMBEDDED + "[engines.incus]\n" + lines

    def leftovers(self):
        """What this host still has of the members: loop devices and mounts."""
        return [line for command in (["losetup", "--list"], ["cat", "/proc/mounts"])
                for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
                if self.folder in line]

    def remove(self):
        """Ends the members. A second Ctrl+C must not leave half of them."""
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self.run("down", check=False)
            # The kernel ends the mounts of a member some time after its last process.
            until = time.time() + LEFTOVER_SECONDS
            while (left := self.leftovers()) and time.time() < until:
                time.sleep(0.1)
            if not left:
                shutil.rmtree(self.folder)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if left:
            raise SystemExit(f"the cluster left: {left}")


class Figures:
    """The figures of one engine: a median for each step."""

    def __init__(self, name):
        self.name, self.steps = name, {}

    def note(self, step, samples):
        self.steps[step] = statistics.median(samples)
        print(f"  {self.name + ': ' + step:<80}{self.steps[step]:>10.2f}   {min(samples):.2f} to {max(samples):.2f}", flush=True)


class Computer:
    """A computer of a controller."""

    def __init__(self, controller, workspace, isolation, name):
        self.controller, self.api = controller, controller.api
        body = {"workspace_id": workspace, "name": name, "isolation": isolation}
        self.id = self.api("POST", "/computers", body)["id"]
        self.path = f"/computers/{self.id}"
        self.command("true")

    def command(self, text):
        self.api("POST", f"{self.path}/bash", {"command": text, "timeout": 120})

    def record(self):
        return self.api("GET", self.path)

    def wait_for(self, fits, label):
        until = time.time() + STEP_SECONDS
        while not fits(record := self.record()):
            if time.time() > until:
                raise SystemExit(f"timeout: not {label}: {record}")
            time.sleep(0.02)

    def act(self, verb, status):
        self.api("POST", f"{self.path}/{verb}", {})
        self.wait_for(lambda record: record["status"] == status, status)

    def resume(self):
        self.act("resume", "running")
        self.command("true")

    def move(self, host, status="running"):
        """Moves it, and waits until it is there and has its status again. Nothing is done when it is there already."""
        if self.record()["host"] == host:
            return
        self.api("POST", f"/operator{self.path}/move", {"host": host})
        self.wait_for(lambda record: record["host"] == host and record["status"] == status, f"on {host}")
        if status == "running":
            self.command("true")

    def socket(self):
        """The controller's socket of its agent, or None where the agent has none on this host."""
        paths = (f"{self.controller.data}/incus/{self.id}.sock", self.controller.socket(self.id))
        return next((path for path in paths if os.path.exists(path)), None)

    def remove(self):
        self.api("DELETE", self.path)


def transfer(connection, headers, method, path, body=None):
    """Sends one request and reads its response; returns megabytes per second of the larger body."""
    view = memoryview(bytearray(1 << 20))
    connection.close()
    connection.connect()
    started, received = time.perf_counter(), 0
    connection.request(method, path, body, headers | {"Content-Type": "application/octet-stream"})
    response = connection.getresponse()
    while count := response.readinto(view):
        received += count
    took = time.perf_counter() - started
    if response.status >= 400:
        raise RequestFailed(f"{method} {path}: {response.status} {bytes(view[:300])!r}")
    return max(received, len(body or b"")) / 1e6 / took


def use(computer, figures, label=lambda step: step):
    """Measures requests to a computer."""
    api, path = computer.api, computer.path

    def repeat(step, work, rounds=REQUESTS):
        work()
        figures.note(label(step), timed(work, rounds))

    repeat(CLICK, lambda: api("POST", f"{path}/click", {"x": 640, "y": 700}))
    repeat(SHOT, lambda: api.raw("GET", f"{path}/screenshot?response_format=binary"))
    repeat(COMMAND, lambda: computer.command("true"))
    data, connection = os.urandom(MEGABYTES * 1_000_000), api.connection
    content = "/files/content?path=/root/data&overwrite=true"
    uploads, downloads = [], []
    for _ in range(ROUNDS):
        uploads.append(transfer(connection, api.headers, "PUT", f"/api{path}{content}", data))
        downloads.append(transfer(connection, api.headers, "GET", f"/api{path}/files/content?path=/root/data"))
    connection.close()
    figures.note(label(UPLOAD), uploads)
    figures.note(label(DOWNLOAD), downloads)
    if socket := computer.socket():
        token = computer.controller.credentials(computer.id)[0]
        repeat(ROUND_TRIP, RawClient(socket, token).prepare("GET", "/health"), ROUND_TRIPS)
        agent, headers = UnixConnection(socket), {"Authorization": f"Bearer {token}"}
        bare = [transfer(agent, headers, "GET", "/files/content?path=/root/data") for _ in range(ROUNDS)]
        agent.close()
        figures.note(label(BARE_DOWNLOAD), bare)


def measure(controller, workspace, isolation, figures, is_cluster):
    """Takes computers of one isolation through their steps. Returns the last one."""
    created, creates = None, []
    for number in range(ROUNDS):
        if created:
            created.remove()
        started = time.perf_counter()
        created = Computer(controller, workspace, isolation, f"{isolation} {number}")
        creates.append((time.perf_counter() - started) * 1000)
    figures.note(CREATE, creates)
    if is_cluster:
        created.move(OWN)
    use(created, figures)
    if isolation == "sandbox":
        suspends, resumes = zip(*((duration(lambda: created.act("suspend", "suspended")), duration(created.resume))
                                  for _ in range(ROUNDS)))
        figures.note(SUSPEND, suspends)
        figures.note(RESUME, resumes)
    if is_cluster:
        # It ends on the other member, with an odd number of moves.
        hosts = ([OTHER, OWN] * ROUNDS)[:ROUNDS | 1]
        figures.note(MOVE, [duration(lambda host=host: created.move(host)) for host in hosts])
        use(created, figures, elsewhere)
        created.act("stop", "stopped")
        hosts = ([OWN, OTHER] * ROUNDS)[:ROUNDS]
        figures.note(MOVE_STOPPED, [duration(lambda host=host: created.move(host, "stopped")) for host in hosts])
    return created


def measure_by_hand(cluster, image, figures):
    """Launches and moves instances of an image by Incus's own command. Their process 1 only sleeps."""
    launches, moves = [], []
    for number in range(ROUNDS):
        name = f"hand{number}"

        def launch():
            cluster.incus("launch", image, name, "--target", OTHER, "--storage", "local", "--network", "desk0",
                          "-c", "raw.lxc=lxc.init.cmd = /usr/bin/sleep infinity")
            until = time.time() + STEP_SECONDS
            while subprocess.run([SCRIPT, cluster.folder, "incus", "1", "exec", name, "true"], stdin=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL).returncode:
                if time.time() > until:
                    raise SystemExit(f"timeout: {name} does not start")
        launches.append(duration(launch))
        cluster.incus("stop", "-f", name)
        moves.append(duration(lambda: cluster.incus("move", name, "--target", OWN)))
        cluster.incus("delete", name)
    figures.note(CREATE, launches)
    figures.note(MOVE_STOPPED, moves)


def report(columns):
    """Prints all figures beside each other, their ratios, and the verdicts."""
    steps = list(dict.fromkeys(step for figures in columns.values() for step in figures.steps))
    table = Table(f"computers on an Incus cluster of {MEMBERS} members", *columns)
    for step in steps:
        table.row(step, *(figures.steps.get(step) for figures in columns.values()))
    for _, name in ENGINES.values():
        found = columns[name].steps
        table.goal(f"{name}: round trip to another member", found[elsewhere(ROUND_TRIP)], most=ROUND_TRIP_GOAL)
        table.goal(f"{name}: download from another member", found[elsewhere(BARE_DOWNLOAD)], least=DOWNLOAD_GOAL, unit="MB/s")
    table.save()
    peers = [*ENGINES.values(), (BY_HAND, "Incus")]
    pairs = {peer: (columns[cluster].steps, columns[peer].steps) for peer, cluster in peers}
    ratios = Table("Incus ratios (times as fast as the peer)", *pairs)
    for step in steps:
        # A computer on another member is compared with the peer's only one.
        plain = next((one for one in USE if step == elsewhere(one)), step)
        found = [(ours.get(step), theirs.get(plain)) for ours, theirs in pairs.values()]
        if any(ours and theirs for ours, theirs in found):
            ratios.row(step, *((ours / theirs if plain in RATES else theirs / ours) if ours and theirs else None
                               for ours, theirs in found))
    ratios.save()


def main():
    binary, image = arguments("incus.py HOTDESK_BINARY IMAGE_FOLDER", 2)
    if missing := [program for program in PROGRAMS if not os.path.exists(program)]:
        Table("computers on an Incus cluster").skip("all", f"{missing[0]} does not exist (packaging/dev/deps bench)")
        return
    # The end of the blocks removes everything.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    names = [name for pair in ENGINES.values() for name in pair]
    columns = {name: Figures(name) for name in (*names, BY_HAND)}
    print("\nsteps: median, best and worst", flush=True)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster())
        controller = stack.enter_context(Controller(binary, image, cluster.configuration()))
        stack.enter_context(log_on_failure(controller))
        print(f"  image published in {duration(lambda: publish(controller)):.0f} ms", flush=True)
        workspace = controller.api("POST", "/workspaces", {"name": "bench"})["id"]
        for isolation, (_, name) in ENGINES.items():
            computer = measure(controller, workspace, isolation, columns[name], True)
            if isolation == "shared":
                origin = cluster.incus("config", "get", f"hd-{computer.id}", "volatile.base_image")
            computer.remove()
        measure_by_hand(cluster, origin, columns[BY_HAND])
    with Controller(binary, image, EMBEDDED) as controller, log_on_failure(controller):
        workspace = controller.api("POST", "/workspaces", {"name": "bench"})["id"]
        for isolation, (name, _) in ENGINES.items():
            measure(controller, workspace, isolation, columns[name], False).remove()
    report(columns)


@contextlib.contextmanager
def log_on_failure(controller):
    """Prints the end of a controller's log when a request fails: the answer does not have the reason."""
    try:
        yield
    except RequestFailed:
        with open(f"{controller.folder}/log") as log:
            print("".join(log.readlines()[-LOG_LINES:]))
        raise


def publish(controller):
    ran = subprocess.run([controller.binary, "image", "publish", "--config", f"{controller.folder}/hotdesk.toml", "--data-dir",
                          controller.data, "--image", controller.image], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         timeout=COMMAND_SECONDS)
    if ran.returncode:
        raise SystemExit(f"the image could not be published: {ran.stdout[-2000:]}")


if __name__ == "__main__":
    main()
