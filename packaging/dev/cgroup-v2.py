"""What does a host with cgroup v2 alone show of a computer? Runs in the VM that `cgroup-v2` boots; says each thing it found."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

GROUPS = "/sys/fs/cgroup"
DATA = "/var/lib/hotdesk"
GIB = 1 << 30
# The smallest computer that the API makes has 4 GB of memory.
SIZE = {"cpu": 1, "ram": 4, "disk_size_gb": 8}
# Bound of src/engine/container/oci.rs.
MOST_PROCESSES = 4096
# Emulation is some ten times slower than a machine: past this a step hangs.
TIMEOUT = 300
BEGUN = time.monotonic()
failures = []


def say(text):
    print(f"[{time.monotonic() - BEGUN:6.1f} s] {text}")


def check(what, held, found=""):
    say(f"{'holds ' if held else 'FAILED'} {what}{': ' if found != '' else ''}{found}")
    if not held:
        failures.append(what)


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout.strip()


def read(*parts):
    with open(os.path.join(*parts)) as file:
        return file.read().strip()


def table(*parts):
    return {line.split()[0]: int(line.split()[1]) for line in read(*parts).splitlines()}


def until(what, act, patience=TIMEOUT):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if act():
            return True
        time.sleep(0.2)
    check(what, False, f"not in {patience} s")
    return False


class Controller:
    """`hotdesk serve` in a group of its own, as an init system runs it."""

    def __init__(self):
        self.key = None
        self.start()

    def start(self):
        group = f"{GROUPS}/services/hotdesk"
        os.makedirs(group, exist_ok=True)

        def enter():
            with open(f"{group}/cgroup.procs", "w") as procs:
                procs.write("0")

        command = ["hotdesk", "serve", "--data-dir", DATA, "--listen", "127.0.0.1:8700", "--image", "/proof/image"]
        log = open("/var/log/hotdesk", "a")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=enter)
        for line in self.process.stdout:
            if line.startswith("account key"):
                self.key = line.split(": ", 1)[1].strip()
            if line.startswith("listening on"):
                return
        sys.exit(f"hotdesk did not start: {read('/var/log/hotdesk')}")

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait(TIMEOUT)

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:8700/api{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")


class Computer:
    def __init__(self, controller, id):
        self.controller, self.id = controller, id
        self.path = f"/computers/{id}"
        self.group = f"{GROUPS}/hotdesk/{id}"

    def status(self):
        return self.controller.ask("GET", self.path)[1]["status"]

    def bash(self, command, timeout=200):
        status, answer = self.controller.ask("POST", f"{self.path}/bash", {"command": command, "timeout": timeout})
        return answer if status == 200 else {"exit_code": None, "output": f"{status}: {answer}"}

    def picture(self):
        status, answer = self.controller.ask("GET", f"{self.path}/screenshot?response_format=base64")
        if status != 200:
            return f"{status}: {answer}"
        picture = base64.b64decode(answer["image"].split(",")[-1])
        known = picture[:8] == b"\x89PNG\r\n\x1a\n" or picture[:3] == b"\xff\xd8\xff"
        return len(picture) if known else f"no picture: {picture[:16]}"

    def first_process(self):
        """The host's number of its first process: the one that is first in its own pid namespace."""
        for pid in read(self.group, "cgroup.procs").split():
            fields = [line for line in read("/proc", pid, "status").splitlines() if line.startswith("NSpid:")]
            if fields[0].split()[-1] == "1":
                return pid
        return None

    def lives(self, what):
        said = self.bash("echo alive", 60)
        check(f"{what}: the computer lives and runs commands", said["output"].strip() == "alive", said["output"].strip())
        seen = self.picture()
        check(f"{what}: its screen is seen", isinstance(seen, int) and seen > 1000, f"{seen} bytes")

    def runs(self, what):
        until(f"{what}: it runs", lambda: self.status() == "running")
        self.lives(what)


def the_host():
    say(f"kernel {os.uname().release}, {run('runc', '--version')[1].splitlines()[0]}")
    groups = [line.split()[:3] for line in read("/proc/mounts").splitlines() if line.split()[2].startswith("cgroup")]
    check("cgroup v2 is all that is mounted", [kind for _, _, kind in groups] == ["cgroup2"], groups)
    check("no controller is left to v1", all(line.split()[1] == "0" for line in read("/proc/cgroups").splitlines()[1:]))
    check("no controller is enabled yet", read(GROUPS, "cgroup.subtree_control") == "")
    code, said = run("hotdesk", "doctor", "--data-dir", DATA, "--image", "/proof/image")
    print(said)
    told = any("control groups" in line and "v2 with cpu, memory, pids" in line for line in said.splitlines())
    check("doctor tells of v2 and its controllers and misses nothing", code == 0 and told, code)


def without_memory():
    """The kernel has no memory controller: a computer without a bound must not be made."""
    code, said = run("hotdesk", "doctor", "--data-dir", DATA, "--image", "/proof/image")
    print(said)
    check("doctor names the controller that is missing", code == 1 and "v2 without memory" in said, code)
    controller = Controller()
    _, workspace = controller.ask("POST", "/workspaces", {"name": "proof"})
    status, answer = controller.ask("POST", "/computers", {"name": "v2", "workspace_id": workspace["id"], **SIZE})
    check("no computer is made", status >= 500, f"{status} {answer}")
    check("nothing is left of it", children(GROUPS, "hotdesk") == [] and backing() == [])
    check("the log says why", "memory" in read("/var/log/hotdesk"), read("/var/log/hotdesk").splitlines()[-1:])
    controller.end(signal.SIGTERM)


def what_is_set(computer):
    # An init system that thinks nobody needs a controller turns it off in the root.
    try:
        with open(f"{GROUPS}/cgroup.subtree_control", "w") as control:
            control.write("-memory -pids -cpu")
        check("controllers in use cannot be turned off in the root", False)
    except OSError as error:
        check("controllers in use cannot be turned off in the root", True, error.strerror)
    usual = {"cpu.max": "100000 100000", "memory.max": str(4 * GIB), "memory.swap.max": "0", "pids.max": str(MOST_PROCESSES)}
    for name, value in usual.items():
        found = read(computer.group, name) if os.path.exists(f"{computer.group}/{name}") else "no such file"
        check(f"{name} is {value}", found == value, found)
    say(f"cpu.weight {read(computer.group, 'cpu.weight')}, subtree_control of the root: {read(GROUPS, 'cgroup.subtree_control')}")
    inside = computer.bash("cat /proc/self/cgroup; ls -A /sys/fs/cgroup | wc -l")["output"].split()
    check("the guest sees no group but its own root, and no cgroup file system", inside == ["0::/", "0"], inside)
    members = read(f"{GROUPS}/services/hotdesk", "cgroup.procs").split()
    check("nothing of the guest is in the controller's group", members == [str(computer.controller.process.pid)], members)


def processor(computer):
    loops = "for i in 1 2; do (while :; do :; done) & done"
    host = [subprocess.Popen(["bash", "-c", "while :; do :; done"]) for _ in range(2)]
    before, begun = table(GROUPS, "cpu.stat")["usage_usec"], time.monotonic()
    time.sleep(8)
    free = (table(GROUPS, "cpu.stat")["usage_usec"] - before) / 1e6 / (time.monotonic() - begun)
    for process in host:
        process.kill()
        process.wait()
    check("two busy loops of the host get much more than one core, so that a bound shows", free > 1.25, f"{free:.2f}")
    computer.bash(f"nohup bash -c '{loops}; wait' >/dev/null 2>&1 </dev/null & echo $! >/tmp/busy")
    time.sleep(2)
    before, begun = table(computer.group, "cpu.stat"), time.monotonic()
    time.sleep(15)
    after, seconds = table(computer.group, "cpu.stat"), time.monotonic() - begun
    used = (after["usage_usec"] - before["usage_usec"]) / 1e6 / seconds
    throttled = after["nr_throttled"] - before["nr_throttled"]
    check("two busy loops of a computer of 1 CPU get one", 0.8 < used < 1.1, f"{used:.2f} cores, throttled {throttled} times")
    check("the kernel throttled it", throttled > 10, throttled)
    computer.bash("pkill -KILL -f 'while :'; true", 100)
    computer.lives("after the busy loops")


def memory(computer):
    first = computer.first_process()
    said = computer.bash("python3 -c \"\nkept = []\nwhile True: kept.append(b'x' * (32 << 20))\"; echo ended $?")
    check("a program that eats more than the memory is killed", "ended 137" in said["output"], said["output"].strip()[-80:])
    events = table(computer.group, "memory.events")
    check("by its group's own bound", events["oom"] >= 1 and events["oom_kill"] >= 1, events)
    if os.path.exists(f"{computer.group}/memory.peak"):
        peak = int(read(computer.group, "memory.peak"))
        check("it never had more than its memory", peak <= 4 * GIB, f"{peak / GIB:.3f} GiB")
    check("the computer's first process is the same", computer.first_process() == first)
    computer.lives("after the eater")


def bomb(computer, when_refused, seconds):
    """Runs a program whose every process forks until it is refused; what `bash` answers."""
    lines = ["import os, time", "while True:", "    try: os.fork()", f"    except OSError: {when_refused}"]
    return computer.bash("python3 -c '" + "\n".join(lines) + "'", seconds)


def processes(computer):
    first, most = computer.first_process(), 0
    child = os.fork()
    if child == 0:
        said = bomb(computer, "time.sleep(1000)", 150)
        say(f"the fork bomb's answer: {said['exit_code']} {said['output'][-100:].strip()}")
        os._exit(0)
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        most = max(most, int(read(computer.group, "pids.current")))
        time.sleep(0.5)
    refused = table(computer.group, "pids.events")["max"]
    check("a fork bomb comes to the bound and no further", MOST_PROCESSES * 0.9 < most <= MOST_PROCESSES, most)
    check("forks were refused", refused > 0, refused)
    until("the bomb is gone after its time-out", lambda: int(read(computer.group, "pids.current")) < 400)
    check("the computer's first process is the same", computer.first_process() == first)
    until("it answers again", lambda: computer.bash("true", 60)["exit_code"] == 0)
    computer.lives("after the fork bomb")


def devices(computer):
    def opens():
        try:
            os.close(os.open("/dev/nvme0n1", os.O_RDONLY))
            return "opened"
        except PermissionError:
            return "refused"

    check("the host's root opens the host's disk", opens() == "opened")
    child = os.fork()
    if child == 0:
        with open(f"{computer.group}/cgroup.procs", "w") as procs:
            procs.write("0")
        os._exit(0 if opens() == "refused" and open("/dev/null").read() == "" else 1)
    check("in the computer's group not even the host's root does", os.waitpid(child, 0)[1] == 0)


def disk(computer):
    size = int(computer.bash("df -m --output=size / | tail -1")["output"])
    check("the disk has its size", 7000 < size <= 8192, f"{size} MiB")
    script = "fallocate -l $((%d << 20)) /root/big; head -c 9G /dev/zero >/root/fill; echo ended $?; df --output=avail / | tail -1"
    said = computer.bash(script % (size - 1000))["output"]
    check("a computer cannot write more than its disk", "No space left" in said and "ended 1" in said, said.split("\n")[-3:])
    computer.bash("rm /root/big /root/fill")
    computer.lives("after the full disk")


def adoption(computer):
    first, settings = computer.first_process(), computer.bash("touch /tmp/before; echo $$ >/dev/null; hostname")["output"]
    for how in [signal.SIGTERM, signal.SIGKILL]:
        computer.controller.end(how)
        check(f"{how.name} of the controller leaves the computer alone", computer.first_process() == first)
        computer.controller.start()
        until("it is adopted", lambda: computer.status() == "running", 60)
        check("by the next controller, with the same first process", computer.first_process() == first)
        said = computer.bash("test -e /tmp/before && hostname")["output"]
        check("and the same guest", said == settings and said != "", said.strip())
        computer.lives(f"after {how.name}")


def children(*parts):
    folder = os.path.join(*parts)
    return [entry.name for entry in os.scandir(folder) if entry.is_dir()] if os.path.isdir(folder) else []


def backing():
    return [name for name in os.listdir("/sys/block") if os.path.exists(f"/sys/block/{name}/loop/backing_file")]


def coming_and_going(computer):
    ask = computer.controller.ask
    # One that never rests: emulated, it leaves the agent no turn. Only the host can end it.
    child = os.fork()
    if child == 0:
        bomb(computer, "pass", 250)
        os._exit(0)
    until("a bomb is at work", lambda: int(read(computer.group, "pids.current")) > MOST_PROCESSES // 2)
    # Thousands of processes may take longer to end, emulated, than the engine waits: it says so then and is asked again.
    for attempt in range(1, 5):
        status, _ = ask("POST", f"{computer.path}/stop")
        check("a stop is taken", status == 200, status)
        until("a stop ends", lambda: computer.status() in ("stopped", "error"))
        if computer.status() == "stopped":
            break
    check("it stops", computer.status() == "stopped", f"at attempt {attempt}")
    os.waitpid(child, 0)
    check("no group is left of a stopped computer", children(GROUPS, "hotdesk") == [] and backing() == [], (children(GROUPS, "hotdesk"), backing()))
    status, _ = ask("POST", f"{computer.path}/start")
    check("a start is taken", status == 200, status)
    computer.runs("started again")
    what_is_set(computer)
    status, answer = ask("DELETE", computer.path)
    check("it is destroyed", status in (200, 204), f"{status} {answer}")
    check("no group, no device is left", children(GROUPS, "hotdesk") == [] and backing() == [], (children(GROUPS, "hotdesk"), backing()))
    mine = [pid for pid in os.listdir("/proc") if pid.isdigit() and computer.id in (read("/proc", pid, "cgroup") if os.path.exists(f"/proc/{pid}") else "")]
    check("no process is left", mine == [], mine)


def main():
    the_host()
    controller = Controller()
    _, workspace = controller.ask("POST", "/workspaces", {"name": "proof"})
    begun = time.monotonic()
    status, made = controller.ask("POST", "/computers", {"name": "v2", "workspace_id": workspace["id"], **SIZE})
    check("a computer is made", status in (200, 201), f"in {time.monotonic() - begun:.0f} s" if status < 300 else made)
    if status >= 300:
        print(read("/var/log/hotdesk")[-4000:])
        return
    computer = Computer(controller, made["id"])
    computer.runs("made")
    for part in [what_is_set, devices, processor, memory, processes, disk, adoption, coming_and_going]:
        say(f"-- {part.__name__}")
        try:
            part(computer)
        except Exception as error:
            check(f"{part.__name__} comes to its end", False, repr(error))
    controller.end(signal.SIGTERM)
    if failures:
        print(read("/var/log/hotdesk")[-4000:])


if "cgroup_disable=memory" in read("/proc/cmdline").split():
    without_memory()
else:
    main()
say(f"{len(failures)} failures" if failures else "everything holds")
sys.exit(1 if failures else 0)
