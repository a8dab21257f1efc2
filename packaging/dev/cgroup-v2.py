"""Test of a computer on a host with only cgroup v2. Runs in the VM that `cgroup-v2` boots and prints each check."""

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
# MOST_PROCESSES of src/engine/container/oci.rs.
MOST_PROCESSES = 4096
# Seconds. Emulation is about ten times slower than a real machine; a longer step hangs.
TIMEOUT = 300
STARTED = time.monotonic()
failures = []


def say(text):
    print(f"[{time.monotonic() - STARTED:6.1f} s] {text}")


def check(what, held, found=""):
    say(f"{'ok    ' if held else 'FAILED'} {what}{': ' if found != '' else ''}{found}")
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


def until(what, act, timeout=TIMEOUT):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if act():
            return True
        time.sleep(0.2)
    check(what, False, f"not in {timeout} s")
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

    def screenshot(self):
        status, answer = self.controller.ask("GET", f"{self.path}/screenshot?response_format=base64")
        if status != 200:
            return f"{status}: {answer}"
        screenshot = base64.b64decode(answer["image"].split(",")[-1])
        is_image = screenshot[:8] == b"\x89PNG\r\n\x1a\n" or screenshot[:3] == b"\xff\xd8\xff"
        return len(screenshot) if is_image else f"not an image: {screenshot[:16]}"

    def first_process(self):
        """The host's process id of the computer's process 1: the one with id 1 in its pid namespace."""
        for pid in read(self.group, "cgroup.procs").split():
            fields = [line for line in read("/proc", pid, "status").splitlines() if line.startswith("NSpid:")]
            if fields[0].split()[-1] == "1":
                return pid
        return None

    def check_usable(self, what):
        output = self.bash("echo alive", 60)
        check(f"{what}: the computer runs commands", output["output"].strip() == "alive", output["output"].strip())
        seen = self.screenshot()
        check(f"{what}: a screenshot works", isinstance(seen, int) and seen > 1000, f"{seen} bytes")

    def wait_until_running(self, what):
        until(f"{what}: status running", lambda: self.status() == "running")
        self.check_usable(what)


def check_host():
    say(f"kernel {os.uname().release}, {run('runc', '--version')[1].splitlines()[0]}")
    groups = [line.split()[:3] for line in read("/proc/mounts").splitlines() if line.split()[2].startswith("cgroup")]
    check("cgroup v2 is all that is mounted", [kind for _, _, kind in groups] == ["cgroup2"], groups)
    check("no controller belongs to v1", all(line.split()[1] == "0" for line in read("/proc/cgroups").splitlines()[1:]))
    check("no controller is enabled yet", read(GROUPS, "cgroup.subtree_control") == "")
    code, output = run("hotdesk", "doctor", "--data-dir", DATA, "--image", "/proof/image")
    print(output)
    reported = any("control groups" in line and "v2 with cpu, memory, pids" in line for line in output.splitlines())
    check("doctor reports v2 with its controllers and no problem", code == 0 and reported, code)


def without_memory():
    """A kernel without a memory controller: the engine must refuse a computer without a memory limit."""
    code, output = run("hotdesk", "doctor", "--data-dir", DATA, "--image", "/proof/image")
    print(output)
    check("doctor names the missing controller", code == 1 and "v2 without memory" in output, code)
    controller = Controller()
    _, workspace = controller.ask("POST", "/workspaces", {"name": "proof"})
    status, answer = controller.ask("POST", "/computers", {"name": "v2", "workspace_id": workspace["id"], **SIZE})
    check("no computer is created", status >= 500, f"{status} {answer}")
    check("no group or device remains", children(GROUPS, "hotdesk") == [] and loop_devices() == [])
    check("the log has the reason", "memory" in read("/var/log/hotdesk"), read("/var/log/hotdesk").splitlines()[-1:])
    controller.end(signal.SIGTERM)


def check_limits(computer):
    # An init system may disable controllers in the root when it does not need them itself.
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
    cpus = read(computer.group, "cpuset.cpus")
    check("it has one of the host's two CPUs", cpus in ("0", "1"), cpus)
    seen = computer.bash("nproc; grep -c ^processor /proc/cpuinfo; free -b | sed -n 's/^Mem: *\\([0-9]*\\) .*/\\1/p'")["output"].split()
    check("its programs see one CPU and 4 GiB", seen == ["1", "1", str(4 * GIB)], seen)
    say(f"cpu.weight {read(computer.group, 'cpu.weight')}, subtree_control of the root: {read(GROUPS, 'cgroup.subtree_control')}")
    inside = computer.bash("cat /proc/self/cgroup; ls -A /sys/fs/cgroup | wc -l")["output"].split()
    check("the guest sees only its own root group and no cgroup file system", inside == ["0::/", "0"], inside)
    members = read(f"{GROUPS}/services/hotdesk", "cgroup.procs").split()
    check("no process of the guest is in the controller's group", members == [str(computer.controller.process.pid)], members)


def processor(computer):
    loops = "for i in 1 2; do (while :; do :; done) & done"
    host = [subprocess.Popen(["bash", "-c", "while :; do :; done"]) for _ in range(2)]
    before, begun = table(GROUPS, "cpu.stat")["usage_usec"], time.monotonic()
    time.sleep(8)
    free = (table(GROUPS, "cpu.stat")["usage_usec"] - before) / 1e6 / (time.monotonic() - begun)
    for process in host:
        process.kill()
        process.wait()
    check("two busy loops on the host get much more than one core, so a limit is visible", free > 1.25, f"{free:.2f}")
    computer.bash(f"nohup bash -c '{loops}; wait' >/dev/null 2>&1 </dev/null & echo $! >/tmp/busy")
    time.sleep(2)
    before, begun = table(computer.group, "cpu.stat"), time.monotonic()
    time.sleep(15)
    after, seconds = table(computer.group, "cpu.stat"), time.monotonic() - begun
    used = (after["usage_usec"] - before["usage_usec"]) / 1e6 / seconds
    check("two busy loops in a computer with 1 CPU get one", 0.8 < used < 1.1, f"{used:.2f} cores")
    computer.bash("pkill -KILL -f 'while :'; true", 100)
    computer.check_usable("after the busy loops")


def memory(computer):
    first = computer.first_process()
    output = computer.bash("python3 -c \"\nkept = []\nwhile True: kept.append(b'x' * (32 << 20))\"; echo ended $?")
    check("a program that allocates more than the memory is killed", "ended 137" in output["output"], output["output"].strip()[-80:])
    events = table(computer.group, "memory.events")
    check("by the limit of its group", events["oom"] >= 1 and events["oom_kill"] >= 1, events)
    if os.path.exists(f"{computer.group}/memory.peak"):
        peak = int(read(computer.group, "memory.peak"))
        check("it never used more than its memory", peak <= 4 * GIB, f"{peak / GIB:.3f} GiB")
    check("the computer's first process is the same", computer.first_process() == first)
    computer.check_usable("after the out-of-memory kill")


def bomb(computer, when_refused, seconds):
    """Runs a program whose processes all fork until the kernel refuses; returns the response of `bash`."""
    lines = ["import os, time", "while True:", "    try: os.fork()", f"    except OSError: {when_refused}"]
    return computer.bash("python3 -c '" + "\n".join(lines) + "'", seconds)


def processes(computer):
    first, most = computer.first_process(), 0
    child = os.fork()
    if child == 0:
        output = bomb(computer, "time.sleep(1000)", 150)
        say(f"response of the fork bomb: {output['exit_code']} {output['output'][-100:].strip()}")
        os._exit(0)
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        most = max(most, int(read(computer.group, "pids.current")))
        time.sleep(0.5)
    refused = table(computer.group, "pids.events")["max"]
    check("a fork bomb reaches the limit and not more", MOST_PROCESSES * 0.9 < most <= MOST_PROCESSES, most)
    check("the kernel refused forks", refused > 0, refused)
    until("the fork bomb ends after its timeout", lambda: int(read(computer.group, "pids.current")) < 400)
    check("the computer's first process is the same", computer.first_process() == first)
    until("it runs commands again", lambda: computer.bash("true", 60)["exit_code"] == 0)
    computer.check_usable("after the fork bomb")


def devices(computer):
    def opens():
        try:
            os.close(os.open("/dev/nvme0n1", os.O_RDONLY))
            return "opened"
        except PermissionError:
            return "refused"

    check("root can open the host's disk", opens() == "opened")
    child = os.fork()
    if child == 0:
        with open(f"{computer.group}/cgroup.procs", "w") as procs:
            procs.write("0")
        os._exit(0 if opens() == "refused" and open("/dev/null").read() == "" else 1)
    check("root cannot open it in the computer's group", os.waitpid(child, 0)[1] == 0)


def disk(computer):
    size = int(computer.bash("df -m --output=size / | tail -1")["output"])
    check("the disk has its configured size", 7000 < size <= 8192, f"{size} MiB")
    script = "fallocate -l $((%d << 20)) /root/big; head -c 9G /dev/zero >/root/fill; echo ended $?; df --output=avail / | tail -1"
    output = computer.bash(script % (size - 1000))["output"]
    check("a computer cannot write more than its disk", "No space left" in output and "ended 1" in output, output.split("\n")[-3:])
    computer.bash("rm /root/big /root/fill")
    computer.check_usable("after the full disk")


def restart_controller(computer):
    first, settings = computer.first_process(), computer.bash("touch /tmp/before; echo $$ >/dev/null; hostname")["output"]
    for how in [signal.SIGTERM, signal.SIGKILL]:
        computer.controller.end(how)
        check(f"{how.name} of the controller does not end the computer", computer.first_process() == first)
        computer.controller.start()
        until("the next controller adopts it", lambda: computer.status() == "running", 60)
        check("the next controller finds the same first process", computer.first_process() == first)
        output = computer.bash("test -e /tmp/before && hostname")["output"]
        check("and the same guest", output == settings and output != "", output.strip())
        computer.check_usable(f"after {how.name}")


def children(*parts):
    folder = os.path.join(*parts)
    return [entry.name for entry in os.scandir(folder) if entry.is_dir()] if os.path.isdir(folder) else []


def loop_devices():
    return [name for name in os.listdir("/sys/block") if os.path.exists(f"/sys/block/{name}/loop/backing_file")]


def stop_start_destroy(computer):
    request = computer.controller.ask
    # An emulated fork bomb that never sleeps leaves the agent no processor time. Only the host can end it.
    child = os.fork()
    if child == 0:
        bomb(computer, "pass", 250)
        os._exit(0)
    until("a fork bomb runs", lambda: int(read(computer.group, "pids.current")) > MOST_PROCESSES // 2)
    # Emulated, thousands of processes may take longer to end than the engine waits. The status is then `error`; stop again.
    for attempt in range(1, 5):
        status, _ = request("POST", f"{computer.path}/stop")
        check("a stop is accepted", status == 200, status)
        until("a stop completes", lambda: computer.status() in ("stopped", "error"))
        if computer.status() == "stopped":
            break
    check("it is stopped", computer.status() == "stopped", f"at attempt {attempt}")
    os.waitpid(child, 0)
    check("no group or device remains of a stopped computer", children(GROUPS, "hotdesk") == [] and loop_devices() == [], (children(GROUPS, "hotdesk"), loop_devices()))
    status, _ = request("POST", f"{computer.path}/start")
    check("a start is accepted", status == 200, status)
    computer.wait_until_running("started again")
    check_limits(computer)
    status, answer = request("DELETE", computer.path)
    check("it is destroyed", status in (200, 204), f"{status} {answer}")
    check("no group or device remains", children(GROUPS, "hotdesk") == [] and loop_devices() == [], (children(GROUPS, "hotdesk"), loop_devices()))
    mine = [pid for pid in os.listdir("/proc") if pid.isdigit() and computer.id in (read("/proc", pid, "cgroup") if os.path.exists(f"/proc/{pid}") else "")]
    check("no process remains", mine == [], mine)


def main():
    check_host()
    controller = Controller()
    _, workspace = controller.ask("POST", "/workspaces", {"name": "proof"})
    started = time.monotonic()
    status, made = controller.ask("POST", "/computers", {"name": "v2", "workspace_id": workspace["id"], **SIZE})
    check("a computer is created", status in (200, 201), f"in {time.monotonic() - started:.0f} s" if status < 300 else made)
    if status >= 300:
        print(read("/var/log/hotdesk")[-4000:])
        return
    computer = Computer(controller, made["id"])
    computer.wait_until_running("created")
    for part in [check_limits, devices, processor, memory, processes, disk, restart_controller, stop_start_destroy]:
        say(f"-- {part.__name__}")
        try:
            part(computer)
        except Exception as error:
            check(f"{part.__name__} completes", False, repr(error))
    controller.end(signal.SIGTERM)
    if failures:
        print(read("/var/log/hotdesk")[-4000:])


if "cgroup_disable=memory" in read("/proc/cmdline").split():
    without_memory()
else:
    main()
say(f"{len(failures)} failures" if failures else "all checks passed")
sys.exit(1 if failures else 0)
