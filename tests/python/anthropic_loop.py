"""Hand-written loop of the unmodified PyPI client `anthropic`: hotdesk executes the calls of the `computer` tool as lists of a
model (docs/api/actions.md). Exits with the first failure.

usage: anthropic_loop.py MODEL_URL API_URL COMPUTER_ID   (the key of hotdesk is in HOTDESK_API_KEY; the scripted model has four
turns, which type into the window with the focus, and then refuses)
"""

import json
import os
import sys
import urllib.request

from anthropic import Anthropic, BadRequestError

MODELS, API, COMPUTER = sys.argv[1:]
# The key of the model's back end never reaches hotdesk, nor hotdesk's the back end.
client = Anthropic(base_url=MODELS, api_key="sk-ant-of-the-loop", max_retries=0)


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAILED: {what}")
    print(f"ok: {what}")


def act(actions, frame=None):
    """One round trip: the results of the actions, and the settled screen."""
    settle = {"quiet_ms": 100, "screenshot": {"format": "jpeg", "max_pixels": 1280 * 800}}
    body = {"format": "anthropic", "actions": actions, "settle": settle}
    if frame:
        body["frame"] = frame
    headers = {"Authorization": f"Bearer {os.environ['HOTDESK_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{API}/computers/{COMPUTER}/actions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def picture(shot):
    source = {"type": "base64", "media_type": shot["mime_type"], "data": shot["image"]}
    return {"type": "image", "source": source}


def ask(messages, shot):
    tool = {"type": "computer_20251124", "name": "computer", "display_width_px": shot["width"],
            "display_height_px": shot["height"]}
    with client.beta.messages.stream(model="claude-sonnet-4-6", max_tokens=1024, betas=["computer-use-2025-11-24"],
                                     tools=[tool], messages=messages) as stream:
        streamed = "".join(stream.text_stream)
        reply = stream.get_final_message()
    text = "".join(block.text for block in reply.content if block.type == "text")
    check(streamed == text, f"a streamed reply ({text!r})")
    return reply


shot = act([{"action": "screenshot"}])["screenshot"]
messages = [{"role": "user", "content": [{"type": "text", "text": "Write the line and save it."}, picture(shot)]}]
turns = 0
while True:
    reply = ask(messages, shot)
    turns += 1
    messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in reply.content]})
    calls = [block for block in reply.content if block.type == "tool_use"]
    if reply.stop_reason != "tool_use":
        break
    done = act([call.input for call in calls], shot["frame"])
    check(done["success"] and len(done["results"]) == len(calls), f"{len(calls)} calls in one round trip")
    shot = done["screenshot"]
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "Done."}]} for call in calls]
    results[-1]["content"].append(picture(shot))
    messages.append({"role": "user", "content": results})

check(turns == 4 and reply.content[0].text == "It is saved.", "the model's last words")
check(reply.usage.input_tokens == 100 and reply.usage.output_tokens == 10, "the usage of a turn")
try:
    ask(messages + [{"role": "user", "content": [{"type": "text", "text": "Again."}]}], shot)
    raise SystemExit("FAILED: expected an error")
except BadRequestError as error:
    check(error.body["error"]["type"] == "invalid_request_error", "a refusal")
print("the loop is closed")
