"""Client of an events socket (docs/api/events.md) that receives a given number of events, each of another type."""

import asyncio
import json
import re
import sys

from websockets.asyncio.client import connect

TYPES = ["window_focus", "window_open", "window_close", "clipboard", "file_change", "screen_change", "audio_stream_start",
         "audio_stream_stop", "process_start", "process_stop", "idle", "active"]
EXTRA = ["title_change", "download_finished", "agent_change", "health_change", "notification", "control_changed",
         "help_requested"]


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
        received = []
        while len(received) < events or not events:
            message = json.loads(await asyncio.wait_for(socket.recv(), 30))
            if message["type"] == "event":
                received.append(message["event"])
            elif not events:
                break
        for event in received:
            assert set(event) == {"type", "timestamp", "data"}, event
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["timestamp"]), event
            assert isinstance(event["data"], dict), event
        if events:
            assert [event["type"] for event in received] == TYPES + EXTRA, received
        assert await ask({"type": "unsubscribe", "event_types": TYPES}) == {"type": "unsubscribed", "message": "ok"}
    print("closed", socket.close_code)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
