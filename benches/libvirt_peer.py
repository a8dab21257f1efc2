"""The lifecycle benchmark with virsh: libvirt virtual machines on the same image, with the kernel of packaging/vm.

libvirtd runs as an unprivileged user with its own folders (libvirt's session mode), so the host's own libvirt stays
untouched. Each machine has a qcow2 file over one shared disk of the image. A machine prints on its serial line when its
desktop is usable, and counts there from then on.
"""

import os
import shutil
import subprocess
import tempfile
import time

from support import CACHE
from steps import Step, duration

VM = os.path.join(CACHE, "vm")
TOOLS = ("virsh", "libvirtd", "qemu-img", "qemu-system-x86_64", "setpriv")
NOBODY = 65534
# An emulated processor boots a desktop in tens of seconds on a busy host.
TIMEOUT = 300
# The default size of a computer: with more processors, a desktop boots faster.
MEMORY_MIB, CPUS = 4096, 1
SIZE = "10G"

# Replaces the init of the initial RAM disk: here, everything is on one disk.
INIT = """#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module.ko"; done </modules/order
mkdir -p /root && mount -t ext4 /dev/vda /root
for at in proc sys dev; do mount --move "/$at" "/root/$at"; done
exec switch_root /root /bin/sh /usr/share/hotdesk-bench
"""
DESKTOP = r"""#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mount -t tmpfs run /run; mkdir -p /dev/pts /dev/shm /run/hotdesk
mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm
(umask 077; echo the-token-of-a-benchmark-1234 >/run/hotdesk/token)
hotdesk init -- --listen unix:/run/agent.sock --token-file /run/hotdesk/token --resolution 1280x720x24 >/run/log 2>&1 &
python3 - >/dev/ttyS0 2>&1 <<'END'
import http.client, json, socket, time
def usable():
    try:
        agent = http.client.HTTPConnection("agent")
        agent.sock = socket.socket(socket.AF_UNIX); agent.sock.connect("/run/agent.sock")
        agent.request("GET", "/health", headers={"Authorization": "Bearer the-token-of-a-benchmark-1234"})
        return json.load(agent.getresponse())["status"] == "ok"
    except (OSError, http.client.HTTPException):
        return False
while not usable(): time.sleep(0.02)
print("usable", flush=True)
count = 0
while True:
    count += 1; print("count", count, flush=True); time.sleep(0.05)
END
exec sleep 1000000
"""


def cpio(name, content, mode):
    """One file as a newc archive (the kernel's initramfs buffer format). Appended to an archive, it replaces that file."""
    def entry(path, data, kind):
        fields = [0, kind, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path) + 1, 0]
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + path.encode() + b"\0"
        return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)
    return entry(name, content, mode) + entry("TRAILER!!!", b"", 0)


class Libvirt:
    """A private libvirtd; the end of a `with` destroys its machines and removes everything."""

    def __init__(self, binary, image):
        # In /var/tmp: the unprivileged user cannot enter a folder that only root can.
        self.folder = tempfile.mkdtemp(prefix="hotdesk-virsh-", dir="/var/tmp")
        os.chmod(self.folder, 0o755)
        self.names = []
        self.base(binary, image)
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", self.folder], check=True)
        self.daemon = subprocess.Popen(self.as_nobody("libvirtd"), stdout=subprocess.DEVNULL,
                                       stderr=open(f"{self.folder}/libvirtd.log", "w"))
        self.wait(lambda: subprocess.run(self.as_nobody("virsh", "-q", "-c", "qemu:///session", "list"), stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL).returncode == 0, "libvirtd")
        # A device node does not prove that KVM works; libvirt asks QEMU.
        able = subprocess.run(self.as_nobody("virsh", "-q", "-c", "qemu:///session", "domcapabilities", "--virttype", "kvm"),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.kind = "kvm" if able.returncode == 0 else "qemu"

    def base(self, binary, image):
        """Makes the shared disk of all machines, the image with the agent in it, and copies the kernel and the initrd."""
        staged = tempfile.mkdtemp(prefix="bench-rootfs-", dir=os.path.dirname(os.path.realpath(image)))
        try:
            subprocess.run(["cp", "-al", f"{image}/rootfs/.", staged], check=True)
            subprocess.run(["install", "-m", "755", binary, f"{staged}/usr/bin/hotdesk"], check=True)
            with open(f"{staged}/usr/share/hotdesk-bench", "w") as file:
                file.write(DESKTOP)
            subprocess.run(["mkfs.ext4", "-q", "-d", staged, f"{self.folder}/base.img", SIZE], check=True,
                           stdout=subprocess.DEVNULL)
        finally:
            subprocess.run(["rm", "-rf", staged], check=True)
        shutil.copy(f"{VM}/kernel", self.folder)
        with open(f"{VM}/initrd", "rb") as file, open(f"{self.folder}/initrd", "wb") as made:
            made.write(file.read() + cpio("init", INIT.encode(), 0o100755))

    def as_nobody(self, *command):
        """A command line as the unprivileged user with its own folders."""
        homes = [f"{name}={self.folder}/{folder}" for name, folder in (
            ("HOME", ""), ("XDG_RUNTIME_DIR", "run"), ("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache"),
            ("XDG_DATA_HOME", "data"))]
        return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--",
                "env", *homes, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *command]

    def virsh(self, *arguments):
        ran = subprocess.run(self.as_nobody("virsh", "-q", "-c", "qemu:///session", *arguments), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
        if ran.returncode:
            raise SystemExit(f"virsh {' '.join(arguments)}: {ran.stderr.strip()}")
        return ran.stdout

    def wait(self, ready, what):
        until = time.time() + TIMEOUT
        while not ready():
            if time.time() > until:
                with open(f"{self.folder}/libvirtd.log") as log:
                    raise SystemExit(f"virsh: timeout: no {what}: {log.read()[-500:]}")
            time.sleep(0.01)

    def serial_lines(self, name):
        """The output lines of a machine's serial line."""
        try:
            with open(f"{self.folder}/{name}.serial", errors="replace") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def usable(self, name, before=0):
        """Waits until a machine prints that it is usable, after its first `before` lines."""
        self.wait(lambda: "usable" in self.serial_lines(name)[before:], f"desktop of {name}")

    def wait_for_count(self, name, before):
        """Waits until a machine counts on, after its first `before` lines."""
        self.wait(lambda: any(line.startswith("count") for line in self.serial_lines(name)[before + 1:]), f"count of {name}")

    def define(self, name):
        self.names.append(name)
        with open(f"{self.folder}/{name}.xml", "w") as file:
            file.write(f"""<domain type="{self.kind}"><name>{name}</name>
                <memory unit="MiB">{MEMORY_MIB}</memory><vcpu>{CPUS}</vcpu>
                <os><type arch="x86_64" machine="q35">hvm</type><kernel>{self.folder}/kernel</kernel>
                <initrd>{self.folder}/initrd</initrd><cmdline>console=ttyS0 quiet panic=-1</cmdline></os>
                <features><acpi/></features>
                <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
                <disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file="{self.folder}/{name}.qcow2"/>
                <target dev="vda" bus="virtio"/></disk>
                <rng model="virtio"><backend model="random">/dev/urandom</backend></rng>
                <serial type="file"><source path="{self.folder}/{name}.serial" append="on"/></serial></devices></domain>""")
        os.chmod(f"{self.folder}/{name}.xml", 0o644)
        self.virsh("define", f"{self.folder}/{name}.xml")

    def create(self, name):
        subprocess.run(self.as_nobody("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", f"{self.folder}/base.img",
                                f"{self.folder}/{name}.qcow2"), check=True)
        self.define(name)
        self.virsh("start", name)
        self.usable(name)

    def remove(self, name):
        subprocess.run(self.as_nobody("virsh", "-q", "-c", "qemu:///session", "destroy", name), stderr=subprocess.DEVNULL)
        subprocess.run(self.as_nobody("virsh", "-q", "-c", "qemu:///session", "undefine", "--managed-save", "--snapshots-metadata",
                                name), stderr=subprocess.DEVNULL)
        self.names.remove(name)

    def pid(self, name):
        with open(f"{self.folder}/run/libvirt/qemu/run/{name}.pid") as file:
            return file.read().strip()

    def bytes(self, path):
        return os.stat(f"{self.folder}/{path}").st_blocks * 512 / 1e6

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self.names):
            self.remove(name)
        self.daemon.terminate()
        self.daemon.wait(30)
        subprocess.run(["rm", "-rf", self.folder], check=True)


def lifecycle(binary, image, rounds, steps):
    """Adds the rows of virsh."""
    missing = [tool for tool in TOOLS if not shutil.which(tool)] + [path for path in (f"{VM}/kernel", f"{VM}/initrd")
                                                                   if not os.path.exists(path)]
    if missing:
        steps.skip("all", f"{', '.join(missing)} missing")
        return
    with Libvirt(binary, image) as libvirt:
        print(f"  (create is qemu-img create, define, start; {libvirt.kind}; stop is destroy; suspend is managedsave)")
        names = [f"m{number}" for number in range(rounds)]
        creates = [duration(lambda name=name: libvirt.create(name)) for name in names]
        name = names[0]
        steps.row(Step.CREATE, creates, libvirt.bytes(f"{name}.qcow2"))
        for other in names[1:]:
            libvirt.remove(other)
        steps.memory(Step.IDLE, [libvirt.pid(name)])

        def until_count(*arguments):
            """A function that runs virsh and waits until the machine counts on."""
            def work():
                before = len(libvirt.serial_lines(name))
                libvirt.virsh(*arguments)
                libvirt.wait_for_count(name, before)
            return work

        def boot():
            before = len(libvirt.serial_lines(name))
            libvirt.virsh("start", name)
            libvirt.usable(name, before)

        stops, boots = zip(*((duration(lambda: libvirt.virsh("destroy", name)), duration(boot)) for _ in range(rounds)))
        steps.row(Step.STOP, stops)
        steps.row(Step.BOOT, boots)
        suspends, resumes, saved = [], [], None
        for _ in range(rounds):
            suspends.append(duration(lambda: libvirt.virsh("managedsave", name)))
            saved = libvirt.bytes(f"config/libvirt/qemu/save/{name}.save")
            resumes.append(duration(until_count("start", name)))
        steps.row(Step.SUSPEND, suspends, saved)
        steps.row(Step.RESUME, resumes)

        def copy_disk():
            """Copies the disk of a machine while the machine is paused."""
            libvirt.virsh("suspend", name)
            subprocess.run(["cp", "-p", "--reflink=auto", f"{libvirt.folder}/{name}.qcow2", f"{libvirt.folder}/copy.qcow2"],
                           check=True)
            libvirt.virsh("resume", name)

        def clone():
            copy_disk()
            libvirt.define("copy")
            libvirt.virsh("start", "copy")
            libvirt.usable("copy")

        # This copy has no 200 MB of its own data: that flatters virsh.
        steps.row(Step.CLONE, [duration(clone)], libvirt.bytes("copy.qcow2"))
        libvirt.virsh("destroy", "copy")
        libvirt.virsh("save", name, f"{libvirt.folder}/saved.save")
        libvirt.virsh("restore", f"{libvirt.folder}/saved.save")
        try:
            libvirt.virsh("restore", f"{libvirt.folder}/saved.save", "--xml", f"{libvirt.folder}/copy.xml")
            libvirt.wait_for_count("copy", 0)
        except SystemExit as refusal:
            # Saved memory can only resume in the machine that it came from.
            for step in (Step.FORK, Step.LAUNCH, Step.LAUNCH_4):
                steps.skip(step, str(refusal).split("error:")[-1].strip())
        libvirt.remove("copy")
        before = libvirt.bytes(f"{name}.qcow2")
        snapshot = duration(lambda: libvirt.virsh("snapshot-create-as", name, "saved"))
        steps.row(Step.SNAPSHOT_MEMORY, [snapshot], libvirt.bytes(f"{name}.qcow2") - before)
        back = until_count("snapshot-revert", name, "saved", "--running")
        steps.row(Step.ROLLBACK_MEMORY, [duration(back) for _ in range(rounds)])
