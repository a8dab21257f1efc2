"""Speaks with an events socket as interface.md has it, and takes as many events as it is told to, each of a type of its own."""

import asyncio
import json
import re
import sys

from websockets.asyncio.client import connect

TYPES = ["window_focus", "window_open", "window_close", "clipboard", "file_change", "screen_change", "audio_stream_start",
         "audio_stream_stop", "process_start", "process_stop", "idle", "active"]
EXTRA = ["title_change", "download_finished"]


async def main(url, events):
    async with connect(url) as socket:
        async def ask(message):
            await socket.send(json.dumps(message))
            while (answer := json.loads(await asyncio.wait_for(socket.recv(), 30)))["type"] == "event":
                pass
            return answer

        assert await ask({"type": "ping"}) == {"type": "pong"}
        answer = await ask({"type": "subscribe", "event_types": TYPES[:1] + ["window_moved"]})
        assert answer["type"] == "error" and "window_moved" in answer["message"], answer
        await socket.send(b"\0\1")
        assert json.loads(await socket.recv())["type"] == "error"
        assert await ask({"type": "subscribe", "event_types": TYPES}) == {"type": "subscribed", "message": "ok"}
        await socket.send(json.dumps({"type": "subscribe", "event_types": EXTRA}))
        told = []
        while len(told) < events or not events:
            message = json.loads(await asyncio.wait_for(socket.recv(), 30))
            if message["type"] == "event":
                told.append(message["event"])
            elif not events:
                break
        for event in told:
            assert set(event) == {"type", "timestamp", "data"}, event
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["timestamp"]), event
            assert isinstance(event["data"], dict), event
        if events:
            assert [event["type"] for event in told] == TYPES + EXTRA, told
        assert await ask({"type": "unsubscribe", "event_types": TYPES}) == {"type": "unsubscribed", "message": "ok"}
    print("closed", socket.close_code)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
