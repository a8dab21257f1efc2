"""`prompt()` of the unmodified PyPI client `orgo`, pointed at hotdesk (docs/api/compatibility.md). Exits with the first
failure.

usage: orgo_prompt.py BASE_URL COMPUTER_ID   (the key is in ORGO_API_KEY; the scripted model has three turns)
"""

import sys

import orgo_banner  # noqa: F401
import orgo.prompt
from orgo import Computer

BASE, COMPUTER = sys.argv[1:]
# The package has no option for the address of the socket.
orgo.prompt.OrgoProvider.__init__.__defaults__ = (BASE.replace("http", "ws", 1),)


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAILED: {what}")
    print(f"ok: {what}")


computer = Computer(computer_id=COMPUTER, base_api_url=f"{BASE}/api", verbose=False)
seen = []
messages = computer.prompt(
    "Look at the screen.", model="scripted", verbose=False, callback=lambda kind, data: seen.append((kind, data))
)
check([message["role"] for message in messages] == ["user", "assistant", "user", "assistant"], "the messages")
check(messages[-1]["content"][0]["text"] == "A desktop.", "the answer")
kinds = [kind for kind, _ in seen]
check(kinds == ["status", "iteration", "text", "tool_use", "iteration", "text", "result"], f"the events ({kinds})")
check(("tool_use", {"action": "screenshot", "params": {}}) in seen, "the action")
try:
    computer.prompt("Fail.", model="scripted", verbose=False)
    raise SystemExit("FAILED: expected an exception")
except RuntimeError as error:
    check("executed nothing" in str(error), f"the error ({error})")
print("prompt passed")
