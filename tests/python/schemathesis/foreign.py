"""Is what is another account's refused, whatever is asked of it?

schemathesis's own check of this, `object_level_authorization`, repeats reads alone; here everything is asked. foreign.toml puts the
other account's ids into paths and queries, and what bodies name is put there here. All that the other account has is named NAME.
"""

import os
from pathlib import Path

import schemathesis

NAME = os.environ["NAME"]
# Operations whose bodies name an object: the field, and the other account's.
BODIES = {
    "POST /computers": ("workspace_id", os.environ["WORKSPACE"]),
    "POST /keys": ("workspace_id", os.environ["WORKSPACE"]),
    "POST /files/upload": ("projectId", os.environ["WORKSPACE"]),
    "POST /files/export": ("desktopId", os.environ["COMPUTER"]),
}
# And those of which a query does. Where a query only narrows a list, an empty list is an honest answer.
QUERIES = {"GET /files/download", "DELETE /files/delete"}
# "Not yours", "not there", "who are you" to a request that lost its key, and that a request makes no sense, which may be said
# first. Neither success nor what would tell the object's state: 402, 409.
REFUSALS = {400, 401, 403, 404, 405, 412, 413, 415, 422}

seen = set()


def addressed(operation):
    """Whether an operation is about an object of the other account's."""
    return "{" in operation.path or operation.label in QUERIES or operation.label in BODIES


@schemathesis.hook
def before_call(context, case, kwargs):
    """Names the other account's object in a body."""
    field, value = BODIES.get(case.operation.label, (None, None))
    if field and isinstance(case.body, dict):
        # The older name of the same field would say something else.
        case.body = {**{key: kept for key, kept in case.body.items() if key != "project_id"}, field: value}


@schemathesis.check
def another_account_s_object_is_refused(context, response, case):
    """Fails on an answer that is no refusal, and on one that shows what is there."""
    operation, status = case.operation, response.status_code
    if addressed(operation):
        if (operation.label, status) not in seen:
            seen.add((operation.label, status))
            with Path(os.environ["SEEN"]).open("a") as told:
                told.write(f"{operation.label} {status}\n")
        assert status in REFUSALS, f"{operation.label} of another account's object was answered {status}"
    if NAME not in (case.path_parameters or {}).values():
        assert NAME not in response.text, f"{operation.label} shows what another account has"
