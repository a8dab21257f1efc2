"""MCP client with the package `mcp`, with and without sessions, over HTTP and over the relay `hotdesk mcp`: types into a
real terminal and takes screenshots. The package checks each result against its tool's output schema.

usage: MCP_TOKEN=... HOTDESK_API_KEY=... HOTDESK=... mcp_client.py BASE COMPUTER ELSEWHERE

The key is of the computer's workspace alone, like the token.
"""

import asyncio
import base64
import os
import sys

import httpx2
import mcp_types as types
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

TOOLS = ["list_workspaces", "get_workspace", "workspace_by_name", "create_workspace", "delete_workspace",
         "list_computers", "get_computer", "create_computer", "clone_computer", "fork_computer", "move_computer",
         "resize_computer", "delete_computer", "list_screens", "create_screen", "delete_screen",
         "start_computer", "stop_computer", "restart_computer", "ensure_running", "suspend_computer", "resume_computer",
         "list_snapshots", "create_snapshot", "launch_snapshot", "rollback", "delete_snapshot",
         "list_templates", "get_template", "template_status", "build_template", "cancel_build",
         "screenshot", "click", "move", "drag", "scroll", "type", "key", "wait", "get_timeline",
         "list_elements", "marked_screenshot", "click_element", "set_element_value", "focus_element",
         "get_control", "take_control", "hand_back_control", "answer_help",
         "bash", "exec", "list_files", "read_file", "write_file",
         "list_workspace_files", "upload_file", "export_file", "download_file",
         "list_threads", "get_thread", "thread_steps", "delete_thread", "run_agent",
         "wait_for_build", "wait_for_run", "doctor"]


class Person:
    """Answers questions with the next action, and keeps them."""

    def __init__(self):
        self.questions, self.action = [], "decline"

    async def __call__(self, context, params):
        self.questions.append(params.message)
        return types.ElicitResult(action=self.action, content={} if self.action == "accept" else None)


async def be_asked(http, base, computer, client, person):
    """A person declines the deletion of a thread, then accepts it."""
    key = {"Authorization": f"Bearer {os.environ['HOTDESK_API_KEY']}"}
    made = await http.post(f"{base}/api/chat/threads", json={"desktopId": computer}, headers=key)
    thread = made.json()["remoteId"]
    for action, fails in [("decline", True), ("accept", False)]:
        person.action = action
        result = await client.call_tool("delete_thread", {"thread_id": thread})
        assert result.is_error == fails, (action, result)
    assert len(person.questions) == 2 and all(thread in question for question in person.questions), person.questions
    assert (await client.call_tool("get_thread", {"thread_id": thread})).is_error


async def be_told(client, mode, uri, changed, paint):
    """A change of the screen is told: in a session by subscription, else by a request that listens."""
    if mode == "legacy":
        await client.subscribe_resource(uri)
        # The client opens its stream for notifications at its own time.
        for _ in range(30):
            await paint()
            try:
                await asyncio.wait_for(changed.wait(), 2)
                break
            except TimeoutError:
                pass
        assert changed.is_set(), "nothing was told of a changed screen"
        await client.unsubscribe_resource(uri)
        return
    async with client.listen(resource_subscriptions=[uri]) as subscription:
        assert subscription.honored.resource_subscriptions == [uri], subscription.honored
        # The first event needs no change.
        for _ in range(2):
            event = await asyncio.wait_for(anext(subscription), 60)
            assert event.uri == uri, event
            await paint()


async def use_all_tools(base, computer, elsewhere, transport, mode):
    headers = {"Authorization": f"Bearer {os.environ['MCP_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
        if transport == "http":
            server = streamable_http_client(f"{base}/mcp", http_client=http)
        else:
            environment = {"HOTDESK_URL": base, "HOTDESK_API_KEY": os.environ["HOTDESK_API_KEY"]}
            server = StdioServerParameters(command=os.environ["HOTDESK"], args=["mcp"], env=environment)
        person, changed = Person(), asyncio.Event()

        async def receive(message):
            if isinstance(message, types.ResourceUpdatedNotification):
                changed.set()

        async with Client(server, mode=mode, elicitation_callback=person, message_handler=receive) as client:
            async def call(tool, **arguments):
                return await client.call_tool(tool, arguments)

            async def succeed(tool, **arguments):
                result = await call(tool, computer_id=computer, **arguments)
                assert not result.is_error, result
                return result

            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(listed) == TOOLS, list(listed)
            assert listed["screenshot"].annotations.read_only_hint and not listed["bash"].annotations.read_only_hint
            assert "computer_id" in listed["click"].input_schema["required"], listed["click"]

            homes = (await call("list_workspaces")).structured_content["workspaces"]
            assert [computer] == [one["id"] for home in homes for one in home["desktops"]], homes
            found = (await call("list_computers")).structured_content
            assert [one["id"] for one in found["computers"]] == [computer], found
            record = (await succeed("get_computer")).structured_content
            assert record["status"] == "running" and "vnc_password" not in record, record

            # A terminal that writes its input to a file.
            mark = f"typed-{transport}-{mode}"
            terminal = f"setsid xterm -T {mark} -geometry 80x24+50+50 -e sh -c 'cat > /tmp/{mark}' >/dev/null 2>&1 &"
            await succeed("bash", command=terminal)
            up = f"for i in $(seq 200); do [ -e /tmp/{mark} ] && exit 0; sleep 0.1; done; exit 1"
            assert (await succeed("bash", command=up)).structured_content["exit_code"] == 0
            # The title distinguishes it from the previous terminal, which may not have ended yet.
            focus = f"timeout 20 xdotool search --sync --onlyvisible --name {mark} windowfocus --sync"
            assert (await succeed("bash", command=focus)).structured_content["exit_code"] == 0
            screenshot = await succeed("screenshot", format="png")
            image = next(content for content in screenshot.content if content.type == "image")
            assert base64.b64decode(image.data).startswith(b"\x89PNG") and image.mime_type == "image/png"
            assert screenshot.structured_content["width"] == 1280 and screenshot.structured_content["frame"], screenshot.structured_content
            jpeg = next(c for c in (await succeed("screenshot", scale=0.5)).content if c.type == "image")
            assert jpeg.mime_type == "image/jpeg"
            clicked = await succeed("click", x=150, y=150, frame=screenshot.structured_content["frame"])
            assert clicked.structured_content["success"], clicked
            await succeed("type", text=f"hello {mode}")
            await succeed("key", key="Enter")
            written = f"for i in $(seq 200); do grep -s . /tmp/{mark} && exit 0; sleep 0.1; done; exit 1"
            output = (await succeed("bash", command=written)).structured_content
            assert output["output"] == f"hello {mode}\n", output
            await succeed("key", key="ctrl+d")

            await succeed("move", x=10, y=20)
            await succeed("drag", start_x=300, start_y=300, end_x=310, end_y=320, duration=0.1)
            await succeed("scroll", direction="down", amount=2, x=300, y=300)
            await succeed("wait", seconds=0.1)
            counted = (await succeed("exec", code="n = globals().get('n', 0) + 1; print(n)", session=mark)).structured_content
            assert counted["success"] and counted["output"] == "1\n", counted
            counted = (await succeed("exec", code="print(n + 1)", session=mark)).structured_content
            assert counted["output"] == "2\n", counted

            screen = (await succeed("create_screen", width=640, height=480)).structured_content
            screens = (await succeed("list_screens")).structured_content["screens"]
            assert [one["id"] for one in screens] == ["default", screen["id"]], screens
            small = await succeed("screenshot", screen=screen["id"])
            assert small.structured_content["width"] == 640, small.structured_content
            await succeed("delete_screen", screen=screen["id"])

            # Longer than a page, and a character lies across its end.
            text = "x" + "\u00e9" * 50_000
            written = (await succeed("write_file", path=f"pages/{mark}.txt", text=text)).structured_content
            assert written["size"] == 100_001, written
            first = (await succeed("read_file", path=f"pages/{mark}.txt")).structured_content
            rest = (await succeed("read_file", path=written["path"], offset=first["next_offset"])).structured_content
            assert first["text"] + rest["text"] == text and "next_offset" not in rest, (first["next_offset"], rest["size"])
            again = await call("write_file", computer_id=computer, path=written["path"], text="")
            assert again.is_error and again.structured_content["code"] == "already_exists", again
            await succeed("write_file", path=written["path"], text="", overwrite=True)
            assert (await succeed("read_file", path=written["path"])).structured_content["text"] == ""
            listing = (await succeed("list_files", path="pages")).structured_content
            assert f"{mark}.txt" in [entry["name"] for entry in listing["entries"]], listing
            missing = await call("read_file", computer_id=computer, path="nowhere")
            assert missing.is_error and "nowhere" in missing.structured_content["error"], missing

            home = homes[0]["id"]
            assert (await call("get_workspace", workspace_id=home)).structured_content["id"] == home
            assert (await call("list_templates")).structured_content["total"] > 0
            assert (await succeed("list_snapshots")).structured_content["total"] == 0
            assert (await succeed("ensure_running")).structured_content["status"] == "running"
            elements = (await succeed("list_elements")).structured_content
            assert isinstance(elements["elements"], list), elements
            marked = await succeed("marked_screenshot", scale=0.5)
            assert any(content.type == "image" for content in marked.content), marked
            upload = await call("upload_file", computer_id=computer, filename=f"{mark}.txt", text="hello")
            assert upload.structured_content["deliveries"][0]["outcome"] == "created", upload
            exported = (await succeed("export_file", path=f"Desktop/{mark}.txt")).structured_content
            assert exported["file"]["size_bytes"] == 5, exported
            link = (await call("download_file", file_id=exported["file"]["id"])).structured_content["url"]
            assert (await http.get(link)).text == "hello"

            reports = []

            async def report(progress, total, message):
                reports.append((progress, message))

            slow = {"computer_id": computer, "command": "sleep 3"}
            assert not (await client.call_tool("bash", slow, progress_callback=report)).is_error
            assert reports and "bash" in reports[0][1], reports

            resources = (await client.list_resources()).resources
            assert [str(one.uri) for one in resources] == [f"hotdesk://computers/{computer}/screen"], resources
            screen = (await client.read_resource(str(resources[0].uri))).contents[0]
            assert base64.b64decode(screen.blob).startswith(b"\xff\xd8") and screen.mime_type == "image/jpeg"

            async def paint():
                window = "setsid xterm -geometry 20x5+600+50 -e sleep 1 >/dev/null 2>&1 &"
                await succeed("bash", command=window)

            await be_told(client, mode, str(resources[0].uri), changed, paint)
            await be_asked(http, base, computer, client, person)
            report = (await succeed("doctor")).structured_content
            assert report["healthy"] and report["computer"]["agent_version"], report
            catalogue = (await call("list_templates")).structured_content["templates"]
            awaited = (await call("wait_for_build", template_ref=catalogue[0]["ref"], timeout=1)).structured_content
            assert awaited["ref"] == catalogue[0]["ref"] and awaited["ended"], awaited

            refused = await call("screenshot", computer_id=elsewhere)
            assert refused.is_error and refused.structured_content["code"] == "workspace_scope_mismatch", refused
            unknown = await call("bash", computer_id="00000000-0000-4000-8000-000000000000", command="true")
            assert unknown.is_error and unknown.structured_content["error"] == "Desktop not found", unknown
            assert (await call("click", computer_id=computer, x="left", y=1)).is_error
            print(f"{transport} {mode}: {client.protocol_version}")


async def main():
    base, computer, elsewhere = sys.argv[1:]
    for transport in ["http", "stdio"]:
        for mode in ["legacy", "auto"]:
            await use_all_tools(base, computer, elsewhere, transport, mode)
    print("all tools used")


asyncio.run(main())
