#!/usr/bin/env python3
"""vncdotool over a WebSocket, driven by a JSON command per line on standard input, with a JSON answer per line.

usage: vnc.py WS_URL

vncdotool needs TCP, so a bridge on the loopback forwards bytes between it and the socket.
"""

import asyncio
import json
import sys
import threading

import websockets
from vncdotool import api

TIMEOUT = 30


class Bridge:
    """Forwards one TCP connection to one WebSocket."""

    def __init__(self, url):
        self.url = url
        self.port = None
        self.code = None
        self.closed = threading.Event()
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True).start()
        ready.wait(TIMEOUT)

    async def serve(self, ready):
        server = await asyncio.start_server(self.forward, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def forward(self, reader, writer):
        async with websockets.connect(self.url, subprotocols=["binary"], max_size=None) as socket:
            async def up():
                while data := await reader.read(65536):
                    await socket.send(data)

            async def down():
                async for data in socket:
                    writer.write(data)
                    await writer.drain()

            directions = [asyncio.ensure_future(direction()) for direction in (up, down)]
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            await socket.close()
            for direction in directions:
                direction.cancel()
        self.code = socket.close_code
        self.closed.set()
        writer.close()


def main():
    bridge = Bridge(sys.argv[1])
    client = api.connect(f"127.0.0.1::{bridge.port}", password=None, timeout=TIMEOUT)

    def perform(command):
        match command["do"]:
            case "capture":
                client.refreshScreen()
                client.captureScreen(command["file"])
                return list(client.screen.size)
            case "type":
                for character in command["text"]:
                    client.keyPress({"\n": "enter", " ": "space"}.get(character, character))
            case "click":
                client.mouseMove(command["x"], command["y"])
                client.mousePress(1)
            case "paste":
                client.paste(command["text"])
            case "code":
                return bridge.code if bridge.closed.wait(TIMEOUT) else None
        return True

    for line in sys.stdin:
        try:
            answer = {"ok": perform(json.loads(line))}
        except Exception as error:  # the test decides
            answer = {"error": f"{type(error).__name__}: {error}", "code": bridge.code}
        print(json.dumps(answer), flush=True)
    sys.stdout.flush()
    # The threads of the reactor and of the bridge need no clean-up.
    import os
    os._exit(0)


main()
