#!/usr/bin/env python3
"""Speed of a computer's disk in an encrypted folder (fscrypt), beside one in a folder that is not.

usage: encryption.py [ROUNDS]

Needs root, and 3 GiB in the current folder. Each disk is ext4 in a file, on a loop device like those of computers. Both
folders are on one file system in a file, and rounds alternate. The caches are dropped before each read. Prints medians in
MB/s, and the cipher's implementation in the kernel.
"""

import fcntl
import os
import re
import struct
import subprocess
import sys
import tempfile

MIB = 512
# linux/loop.h: a device that frees itself, with direct I/O.
AUTOCLEAR_DIRECT = 4 | 16


def run(*command):
    """Runs a program and returns what it printed."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


def encrypt(root, folder):
    """Encrypts an empty folder with a random key (linux/fscrypt.h)."""
    mounted = os.open(root, os.O_RDONLY)
    key = os.urandom(64)
    argument = bytearray(struct.pack("II32sII32s", 2, 0, bytes(32), len(key), 0, bytes(32)) + key)
    fcntl.ioctl(mounted, 0xC0506617, argument, True)
    os.close(mounted)
    opened = os.open(folder, os.O_RDONLY)
    fcntl.ioctl(opened, 0x800C6613, bytearray([2, 1, 4, 3, 0, 0, 0, 0]) + argument[8:24], True)
    os.close(opened)


def attach(image, at):
    """Mounts a file as the engine does."""
    control = os.open("/dev/loop-control", os.O_RDWR)
    device = f"/dev/loop{fcntl.ioctl(control, 0x4C82)}"
    os.close(control)
    opened, file = os.open(device, os.O_RDWR), os.open(image, os.O_RDWR)
    argument = bytearray(304)
    struct.pack_into("I", argument, 0, file)
    struct.pack_into("I", argument, 60, AUTOCLEAR_DIRECT)
    fcntl.ioctl(opened, 0x4C0A, argument, True)
    os.close(file)
    run("mount", device, at)
    os.close(opened)


def rate(output):
    """MB/s in the output of dd."""
    return MIB * 1.048576 / float(re.search(r"copied, ([0-9.]+) s", output).group(1))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory(dir=".") as folder:
        image, root = f"{folder}/image", f"{folder}/root"
        os.mkdir(root)
        run("truncate", "-s", "3G", image)
        run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "encrypt", image)
        run("mount", "-o", "loop", image, root)
        disks = {"plain": f"{folder}/plain", "encrypted": f"{folder}/encrypted"}
        mounted = [root]
        try:
            for name, at in disks.items():
                os.mkdir(f"{root}/{name}")
                if name == "encrypted":
                    encrypt(root, f"{root}/{name}")
                disk = f"{root}/{name}/disk.img"
                run("truncate", "-s", "1200M", disk)
                run("mkfs.ext4", "-q", "-F", "-m", "0", disk)
                os.mkdir(at)
                attach(disk, at)
                mounted.append(at)
            rates = {(name, way): [] for name in disks for way in ("write", "read")}
            for _ in range(rounds):
                for name, at in disks.items():
                    size = ("bs=1M", f"count={MIB}")
                    written = run("dd", "if=/dev/zero", f"of={at}/big", *size, "conv=fsync,notrunc")
                    rates[name, "write"].append(rate(written))
                    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as caches:
                        caches.write("3")
                    rates[name, "read"].append(rate(run("dd", f"if={at}/big", "of=/dev/null", *size)))
        finally:
            for at in reversed(mounted):
                run("umount", at)
    for (name, way), values in rates.items():
        print(f"{name} {way}: {sorted(values)[len(values) // 2]:.0f} MB/s")
    with open("/proc/crypto", encoding="ascii") as ciphers:
        print("cipher: " + re.search(r": xts\(aes\)\ndriver\s*: (\S+)", ciphers.read()).group(1))


if __name__ == "__main__":
    main()
