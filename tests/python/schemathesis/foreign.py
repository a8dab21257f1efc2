"""Check that requests about another account's objects are refused.

schemathesis's own check, `object_level_authorization`, repeats only reads; this one covers all requests. foreign.toml puts ids of
the other account into paths and queries; this module puts them into bodies. All objects of the other account are named NAME.
"""

import os
from pathlib import Path

import schemathesis

NAME = os.environ["NAME"]
# Operations whose bodies name an object: the field, and an id of the other account.
BODIES = {
    "POST /computers": ("workspace_id", os.environ["WORKSPACE"]),
    "POST /keys": ("workspace_id", os.environ["WORKSPACE"]),
    "POST /files/upload": ("projectId", os.environ["WORKSPACE"]),
    "POST /files/export": ("desktopId", os.environ["COMPUTER"]),
    "PUT /secrets/{name}": ("workspace_id", os.environ["WORKSPACE"]),
    "POST /chat/threads": ("desktopId", os.environ["COMPUTER"]),
    "POST /v1/chat/completions": ("computer_id", os.environ["COMPUTER"]),
}
# Operations whose query names an object. Where a query only narrows a list, an empty list is a correct response.
QUERIES = {"GET /files/download", "DELETE /files/delete", "GET /chat/threads"}
# Operations about objects that all accounts have.
SHARED = {"GET /v1/models/{model}"}
# Refused, not found, unauthenticated (for a request that lost its key), and malformed, which may be checked first. Not success, and
# not 402 or 409, which would reveal the object's state.
REFUSALS = {400, 401, 403, 404, 405, 412, 413, 415, 422}

seen = set()


def names_object(operation):
    """Whether an operation is about an object of the other account."""
    if operation.label in SHARED:
        return False
    return "{" in operation.path or operation.label in QUERIES or operation.label in BODIES


@schemathesis.hook
def before_call(context, case, kwargs):
    """Puts an id of the other account into a body."""
    field, value = BODIES.get(case.operation.label, (None, None))
    if field and isinstance(case.body, dict):
        # The older alias of the field would contradict it.
        case.body = {**{key: value for key, value in case.body.items() if key != "project_id"}, field: value}


@schemathesis.check
def another_account_s_object_is_refused(context, response, case):
    """Fails on a response that is not a refusal, and on one that shows data of the other account."""
    operation, status = case.operation, response.status_code
    if names_object(operation):
        if (operation.label, status) not in seen:
            seen.add((operation.label, status))
            with Path(os.environ["SEEN"]).open("a") as file:
                file.write(f"{operation.label} {status}\n")
        assert status in REFUSALS, f"{operation.label} of another account's object was answered {status}"
    if NAME not in (case.path_parameters or {}).values():
        assert NAME not in response.text, f"{operation.label} shows what another account has"
