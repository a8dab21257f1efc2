"""Call sequences of the unmodified PyPI client `orgo` (docs/api/compatibility.md). Exits with the first failure.

usage: orgo_client.py BASE_API_URL streams|no-streams   (the key is in ORGO_API_KEY; with "streams" there is a saved RTMP
connection "saved" whose server answers)
"""

import io
import sys

import orgo_banner  # noqa: F401
from orgo import Computer, Project  # noqa: E402

BASE = sys.argv[1]
TEXT = "Grüße, 世界! naïve Ω → ✓"


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAILED: {what}")
    print(f"ok: {what}")


def refusal(call):
    """Message of the exception that a call must raise."""
    try:
        call()
    except Exception as error:  # the client raises bare Exceptions
        return str(error)
    raise SystemExit("FAILED: expected an exception")


# A: a new project with a computer. The client acts at once, without polling.
computer = Computer(project="demo", base_api_url=BASE, verbose=False)
check(computer.bash("echo $DISPLAY").strip() == ":99", "A: usable right after the create")
check((computer.ram, computer.cpu) == (4, 1), "A: default size")

# D: each action once.
for act in (computer.left_click, computer.right_click, computer.double_click):
    check(act(100, 100)["success"] is True, f"D: {act.__name__}")
computer.key("Escape")
check(computer.drag(10, 300, 200, 320, duration=0.1)["action"] == "drag", "D: drag")
check(computer.scroll("down", 2)["details"]["direction"] == "down", "D: scroll in the middle of the screen")
computer.bash("rm -f /root/typed; (DISPLAY=:99 nohup xterm -e 'cat > /root/typed' >/dev/null 2>&1 &)")
check(
    computer.bash("timeout 20 xdotool search --sync --onlyvisible --class xterm windowfocus --sync && echo ready")
    .strip().endswith("ready"),
    "D: a terminal has the focus",
)
check(computer.type(TEXT)["success"] is True, "D: type")
computer.key("Return")
computer.key("ctrl+d")
check(
    computer.bash("for i in $(seq 100); do [ -s /root/typed ] && break; sleep 0.1; done; cat /root/typed").strip() == TEXT,
    "D: the program received the typed text",
)
check(computer.screenshot().size == (1280, 720), "D: screenshot")
content, mime = computer.api._download(computer.api.get_screenshot(computer.computer_id, "url")["image"])
check(mime == "image/png" and content[:4] == b"\x89PNG", "D: screenshot by link")
check(computer.bash("printf out; printf err >&2") == "outerr", "D: bash")
check(computer.exec("print(6 * 7)")["output"].strip() == "42", "D: exec")
check(computer.exec("raise ValueError('no')")["error_type"] == "ValueError", "D: exec reports the error")
check(computer.wait(0.1)["action"] == "wait", "D: wait")

check(computer.stream_status() == {"status": "idle"}, "D: no stream")
check(refusal(lambda: computer.start_stream("unknown")) == "Connection not found", "D: an unknown connection")
if sys.argv[2] == "streams":
    started = computer.start_stream("saved")
    check((started["success"], started["status"]) == (True, "streaming"), "D: a stream starts")
    check(started["pid"] > 1, "D: the stream has a process")
    status = computer.stream_status()
    check((status["status"], status["pid"]) == ("streaming", started["pid"]), "D: stream status")
    check("T" in status["start_time"], "D: start time")
    check("already" in refusal(lambda: computer.start_stream("saved")), "D: one stream at a time")
check(computer.stop_stream() == {"success": True}, "D: a stream ends")
check(computer.stream_status() == {"status": "idle"}, "D: no stream after the stop")

# E: connecting sends no request until the first use; scroll reads the screen size once.
again = Computer(computer_id=computer.computer_id, base_api_url=BASE, verbose=False)
check(again.scroll("up", 1)["success"] is True, "E: connected by id")
check(again.status()["status"] == "running", "E: status")
resized = computer.api._request("PATCH", f"computers/{computer.computer_id}/screens/default", {"width": 600, "height": 300})
check((resized["width"], resized["height"]) == (600, 300), "E: the screen is smaller")
again = Computer(computer_id=computer.computer_id, base_api_url=BASE, verbose=False)
check(again.scroll("up", 1)["success"] is True, "E: scroll in the middle of the smaller screen")
check(again.status()["instance_details"]["resolution"] == "600x300x24", "E: the record has its resolution")

# B: an existing project and a template.
templated = Computer(project="demo", name="b", template="system/desktop@1.0.0", base_api_url=BASE, verbose=False)
check(templated.bash("echo up").strip() == "up", "B: launched from a curated template")
templated.destroy()

# B: a template that is no reference here is ignored.
plain = Computer(project="demo", name="b", template="my-image", base_api_url=BASE, verbose=False)
check(plain.bash("echo up").strip() == "up", "B: an unknown image is the default one")
plain.destroy()

# C: a refused create. The client creates the project again, repeats the create and shows its error.
message = refusal(lambda: Computer(project="demo", name="c", template="system/none@1.0.0", base_api_url=BASE, verbose=False))
check(message == "Template not found: system/none@1.0.0", f"C: the client shows the reason ({message})")

# I: a project by name and its computers.
project = Project("demo", base_api_url=BASE)
check([found["id"] for found in project.list_computers()] == [computer.computer_id], "I: B and C left no computer")
check(project.get_computer(computer.name)["id"] == computer.computer_id, "I: a computer by name")

# H: removal.
check(computer.restart()["success"] is True, "restart")
check(computer.bash("echo back").strip() == "back", "usable right after a restart")
check(computer.destroy() == {"success": True}, "H: computer deleted")
check("not found" in refusal(computer.status).lower(), "H: the computer is gone")
check(project.destroy() == {"success": True}, "H: project deleted")
print("all sequences passed")
