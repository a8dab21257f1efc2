#!/usr/bin/env python3
"""vncdotool on a WebSocket: a line of JSON tells what to do, a line of JSON tells what came of it.

usage: vnc.py WS_URL

vncdotool wants TCP, so a bridge on loopback carries the bytes between it and the socket.
"""

import asyncio
import json
import sys
import threading

import websockets
from vncdotool import api

TIMEOUT = 30


class Bridge:
    """One TCP connection joined with one WebSocket."""

    def __init__(self, url):
        self.url = url
        self.port = None
        self.code = None
        self.closed = threading.Event()
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True).start()
        ready.wait(TIMEOUT)

    async def serve(self, ready):
        server = await asyncio.start_server(self.join, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def join(self, reader, writer):
        async with websockets.connect(self.url, subprotocols=["binary"], max_size=None) as socket:
            async def up():
                while data := await reader.read(65536):
                    await socket.send(data)

            async def down():
                async for data in socket:
                    writer.write(data)
                    await writer.drain()

            ways = [asyncio.ensure_future(way()) for way in (up, down)]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            await socket.close()
            for way in ways:
                way.cancel()
        self.code = socket.close_code
        self.closed.set()
        writer.close()


def main():
    bridge = Bridge(sys.argv[1])
    client = api.connect(f"127.0.0.1::{bridge.port}", password=None, timeout=TIMEOUT)

    def do(order):
        match order["do"]:
            case "capture":
                client.refreshScreen()
                client.captureScreen(order["file"])
                return list(client.screen.size)
            case "type":
                for character in order["text"]:
                    client.keyPress({"\n": "enter", " ": "space"}.get(character, character))
            case "click":
                client.mouseMove(order["x"], order["y"])
                client.mousePress(1)
            case "paste":
                client.paste(order["text"])
            case "code":
                return bridge.code if bridge.closed.wait(TIMEOUT) else None
        return True

    for line in sys.stdin:
        try:
            answer = {"ok": do(json.loads(line))}
        except Exception as error:  # the test judges
            answer = {"error": f"{type(error).__name__}: {error}", "code": bridge.code}
        print(json.dumps(answer), flush=True)
    sys.stdout.flush()
    # Neither the reactor's thread nor the bridge's has anything to end in order.
    import os
    os._exit(0)


main()
