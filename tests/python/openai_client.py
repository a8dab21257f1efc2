"""The unmodified PyPI client `openai` against chat completions (docs/api/chat.md). Exits with the first failure.

usage: openai_client.py BASE_URL COMPUTER_ID   (the key is in OPENAI_API_KEY; the scripted model has five turns)
"""

import sys

from openai import APIStatusError, AuthenticationError, BadRequestError, OpenAI

BASE, COMPUTER = sys.argv[1:]
client = OpenAI(base_url=BASE)


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAILED: {what}")
    print(f"ok: {what}")


def ask(text, **fields):
    extra = {"computer_id": COMPUTER, **fields.pop("extra", {})}
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    return client.chat.completions.create(model="scripted", messages=messages, extra_body=extra, **fields)


models = client.models.list()
check("scripted" in [model.id for model in models], "models are listed")
check(client.models.retrieve("scripted").owned_by == "hotdesk", "a model is read")

answer = ask("hello", temperature=0.2)
check(answer.choices[0].message.content == "Hello \n\nworld.", "a plain answer")
check(answer.choices[0].finish_reason == "stop" and answer.usage.total_tokens == 220, "usage of the whole run")
check(answer.orgo["steps"] == 1, "the run did one step")

text, last = "", None
for chunk in ask("count", stream=True):
    text += chunk.choices[0].delta.content or ""
    last = chunk
check(text == "One two three." and last.choices[0].finish_reason == "stop", "a streamed answer")
check(last.usage.total_tokens == 110, "usage in the last chunk")

raw = client.chat.completions.with_raw_response.create(
    model="scripted",
    messages=[{"role": "user", "content": [{"type": "text", "text": "again"}]}],
    extra_body={"computer_id": COMPUTER, "thread_id": answer.orgo["thread_id"]},
)
check(raw.headers["x-thread-id"] == answer.orgo["thread_id"], "the thread is in the head")
check(raw.parse().choices[0].message.content == "With history.", "a thread is continued")

try:
    ask("fail")
    raise SystemExit("FAILED: expected an error")
except BadRequestError as error:
    check(error.code == "model_refused", f"the code of an error ({error.code})")
    check(error.body["steps"] == 0 and error.type == "invalid_request_error", "the fields of an error")

try:
    ask("none", extra={"computer_id": "none"})
    raise SystemExit("FAILED: expected an error")
except APIStatusError as error:
    check(error.status_code == 404 and error.code == "computer_not_found", "an unknown computer")

try:
    OpenAI(base_url=BASE, api_key="sk_live_wrong").models.list()
    raise SystemExit("FAILED: expected an error")
except AuthenticationError:
    print("ok: a wrong key")

print("all calls passed")
