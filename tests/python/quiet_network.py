"""A network namespace for a browser, in which no interface ever appears or goes.

Chromium aborts its requests when an interface of its network namespace changes (ERR_NETWORK_CHANGED), and every computer
that starts or ends on the host is such a change. In here it has `lo` alone, and reaches the host through a SOCKS proxy.
"""

import asyncio
import ctypes
import fcntl
import os
import queue
import socket
import struct
import tempfile
import threading

CLONE_NEWNET = 0x40000000  # sched.h
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1  # sockios.h, if.h


def start(program):
    """Returns a program that runs `program` in a namespace of its own, and the browser's arguments for the proxy.

    Needs root, as computers do: without it there are none whose start could disturb the browser, and it gets `program` back.
    """
    if os.geteuid() != 0:
        return program, []
    listener, namespace = in_thread(listen_in_new_namespace)
    threading.Thread(target=lambda: asyncio.run(serve(listener)), daemon=True).start()
    script = tempfile.NamedTemporaryFile("w", prefix="browser-", delete=False)
    script.write(f'#!/bin/sh\nrm -f "$0"\nexec nsenter --net=/proc/{os.getpid()}/fd/{namespace} {program} "$@"\n')
    script.close()
    os.chmod(script.name, 0o700)
    # `<-loopback>`: addresses of the host itself go through the proxy, too.
    return script.name, [f"--proxy-server=socks5://127.0.0.1:{listener.getsockname()[1]}", "--proxy-bypass-list=<-loopback>"]


def in_thread(function):
    results = queue.Queue()
    threading.Thread(target=lambda: results.put(function())).start()
    return results.get(timeout=10)


def listen_in_new_namespace():
    """Moves the calling thread into a new namespace. Returns a listener there, and a descriptor that keeps the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "cannot make a network namespace")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    namespace = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
    return socket.create_server(("127.0.0.1", 0)), namespace


async def serve(listener):
    server = await asyncio.start_server(relay, sock=listener)
    await server.serve_forever()


async def relay(reader, writer):
    """Serves one connection of SOCKS version 5 without authentication (RFC 1928)."""
    try:
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\5\0")
        _, _, _, kind = await reader.readexactly(4)
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        else:
            family, length = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, await reader.readexactly(length))
        if host.endswith(".localhost"):
            host = "localhost"  # Browsers take such names for the host itself; resolvers may not (RFC 6761, section 6.3).
        port = int.from_bytes(await reader.readexactly(2), "big")
        try:
            far_reader, far_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.write(b"\5\5\0\1" + bytes(6))  # connection refused
            return
        writer.write(b"\5\0\0\1" + bytes(6))
        try:
            await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        finally:
            far_writer.close()
    except (OSError, asyncio.IncompleteReadError):
        pass  # One of the two ends has gone; the other is closed below.
    finally:
        writer.close()


async def copy(reader, writer):
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.write_eof()
