"""Templates of the unmodified PyPI client: image builds are refused with a sentence, references are launched.

Usage: orgo_templates.py BASE_URL REFERENCE, with ORGO_API_KEY.
"""

import sys

import orgo_banner  # noqa: F401
from orgo import Computer, Template  # noqa: E402
from orgo.forge import Forge  # noqa: E402

BASE, REFERENCE = sys.argv[1:]


def refusal(call):
    """Message of the exception that a call must raise."""
    try:
        call()
    except Exception as error:  # the client raises bare Exceptions
        return str(error)
    raise SystemExit("FAILED: expected an exception")


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAILED: {what}")
    print(f"ok: {what}")


template = Template("tools", base_api_url=BASE, verbose=False).run("pip install numpy")
message = refusal(template.build)
check("hotdesk templates publish" in message, f"Template.build says what to use instead ({message})")
message = refusal(Forge("org", "project", base_api_url=BASE).run("true").build)
check("hotdesk templates publish" in message, f"Forge.build says what to use instead ({message})")

# The client finds no build of the reference and sends it as `image`.
computer = Computer(project="templates", name="desk", template=REFERENCE, base_api_url=BASE, verbose=False)
check(computer.status()["template_ref"] == REFERENCE, "a reference is launched")
computer.destroy()
print("all sequences passed")
