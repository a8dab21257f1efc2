"""Use of the Python library `hotdesk`, which is installed as its wheel.

usage: hotdesk_client.py FOLDER      HOTDESK_URL and HOTDESK_API_KEY: a service that makes computers

A desktop makes a file, by the library with and without `async`; events, a terminal and sound are iterated over; files go both
ways; a computer is saved and rolled back; a bad id is a typed error. The last line of its output is `done`.
"""

import asyncio
import hashlib
import os
import sys
import threading
import time
from pathlib import Path

import PIL.Image

import hotdesk
from hotdesk import AsyncComputer, Client, Computer, NotFound
from hotdesk.rest.api.computers import computers_list
from hotdesk.rest.api.keys import keys_create
from hotdesk.rest.models.create_key import CreateKey

UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
# A terminal as the editor: its window closes when the file is saved.
EDITOR = "xterm -title editor -e sh -c 'cat > /root/Desktop/typed.txt'"
TEXT = "Grüße: 1 < 2 && 'done'"


def type_into_a_file(computer: Computer) -> None:
    """Opens an editor, types, saves, and reads the file back. The events are about its window."""
    with computer.events("window_open", "window_close", "file_change") as events:
        launched = computer.launch(EDITOR, wait_seconds=60)
        assert launched.window and "editor" in launched.window.title, launched
        opened = events.wait_for(lambda event: event.type == "window_open", timeout=60)
        assert opened.data["window_id"] and opened.time.year > 2000, opened
        assert computer.wait_for_window("editor").id == launched.window.id
        computer.focus_window(launched.window)
        picture = computer.screenshot()
        assert isinstance(picture, PIL.Image.Image) and picture.size == (1280, 720), picture
        x, y = launched.window.x + 5, launched.window.y + 5
        clicked = computer.click(x, y, frame=picture.info["frame"])
        assert clicked.success and clicked.action == "click", clicked
        typed = computer.type(f"{TEXT}\n", settle=hotdesk.Settle(quiet_ms=100))
        assert typed.success and typed.settle, typed
        computer.key("ctrl+d")
        events.wait_for(lambda event: event.type == "window_close", timeout=60)
    assert computer.files.read_text("Desktop/typed.txt") == f"{TEXT}\n"


def look(computer: Computer) -> None:
    part = computer.screenshot(region=(10, 20, 300, 200), scale=0.5, format="webp", cursor=False)
    assert part.size == (150, 100), part.size
    assert computer.wait_stable(quiet_ms=50, timeout_ms=30_000)
    # A quiet screen does not change.
    assert computer.wait_change(timeout_ms=50, region=(0, 0, 10, 10)) is False
    computer.set_clipboard("copied")
    assert computer.clipboard().text == "copied"
    assert computer.move(3, 4).success and computer.scroll("up", 2, x=50, y=50).success
    assert computer.drag([(10, 10), (60, 80)], duration=0.1).success


def run_commands(computer: Computer) -> None:
    ran = computer.bash("cat; echo $WHO; exit 3", stdin="in\n", env={"WHO": "me"})
    assert (ran.output, ran.exit_code) == ("in\nme\n", 3), ran
    computer.python("x = 6", session="s", timeout=60)
    assert computer.python("print(x * 7)", session="s", timeout=60).output == "42\n"


def use_a_terminal(computer: Computer) -> None:
    with computer.terminal(cols=100) as terminal:
        terminal.send("stty size; echo he''llo\r")
        assert "24 100" in terminal.read_until("hello")
        terminal.send("exit 5\r")
        for _ in terminal:
            pass
        assert terminal.exit_code == 5, terminal.exit_code
    with computer.terminal() as terminal:
        terminal.send("echo at''once\r")
        written, end = "", time.monotonic() + 60
        while "atonce" not in written:
            assert time.monotonic() < end, written
            # A look without a wait finds what is there.
            try:
                written += terminal.read(timeout=0) or ""
            except hotdesk.WaitTimeout:
                time.sleep(0.02)
    unused = computer.terminal()
    unused.close()
    try:
        unused.send("echo never\r")
    except hotdesk.SocketClosed as error:
        assert error.code == 1000, error
    else:
        raise AssertionError("a terminal that was closed was opened")


def copy_files(computer: Computer, folder: Path) -> None:
    files = computer.files
    # Larger than a body with an Idempotency-Key may be.
    content = os.urandom(1024) * 3000
    source = folder / "source.bin"
    source.write_bytes(content)
    written = files.upload(source, "in/large.bin", parents=True)
    assert written.size == len(content) and files.sha256("in/large.bin") == hashlib.sha256(content).hexdigest()
    assert files.download("in/large.bin", folder / "back.bin").read_bytes() == content
    files.write("in/a.txt", "one")
    try:
        files.write("in/a.txt", "two", overwrite=False)
    except hotdesk.Conflict as error:
        assert error.code == "already_exists", error
    else:
        raise AssertionError("a file was replaced")
    files.move("in/a.txt", "in/b.txt")
    files.mkdir("in/deep/er", parents=True)
    assert [entry.name for entry in files.list("in")] == ["b.txt", "deep", "large.bin"]
    assert files.stat("in/b.txt").size == 3
    files.remove("in", recursive=True)
    try:
        files.download("in/b.txt", folder / "missing.txt")
    except NotFound:
        assert not list(folder.glob("missing*"))
    else:
        raise AssertionError("a removed file was read")


def save_and_roll_back(computer: Computer) -> None:
    computer.files.write("Desktop/kept.txt", "kept")
    snapshot = computer.snapshot("before")
    computer.files.remove("Desktop/kept.txt")
    computer.roll_back(snapshot)
    computer.wait_for_status("running")
    assert computer.files.read("Desktop/kept.txt") == b"kept"
    assert [it.name for it in computer.snapshots()] == ["before"]
    computer.delete_snapshot(snapshot)
    copy = computer.clone("copy of python")
    assert copy.record().name == "copy of python"
    copy.delete()
    computer.stop()
    assert computer.wait_for_status("stopped").status == "stopped"
    assert computer.ensure_running().status == "running"


def check_errors(client: Client) -> None:
    with Computer.create(client=client) as other:
        try:
            with other.events("no_such_type"):
                raise AssertionError("an unknown type was accepted")
        except hotdesk.HotdeskError as error:
            assert "no_such_type" in str(error), error
    try:
        Computer(UNKNOWN_ID, client=client).click(1, 1)
    except NotFound as error:
        assert error.status == 404 and error.request_id and len(error.request_id) == 32, error
        assert error.request_id in str(error)
    else:
        raise AssertionError("an unknown computer was clicked")
    try:
        Computer("no such name", client=client).record()
    except hotdesk.NoSuchComputer as error:
        assert "no such name" in str(error)
    else:
        raise AssertionError("an unknown name was found")
    with Client(client.origin, "sk_live_wrong") as stranger:
        try:
            computers_list.sync(stranger)
        except hotdesk.Unauthenticated as error:
            assert error.status == 401 and error.request_id, error
        else:
            raise AssertionError("a wrong key was accepted")


async def with_async(name: str, folder: Path) -> None:
    """The same as above, by the other library: two things of one computer at once."""
    async with AsyncComputer(name) as computer:
        # All types, as the service names them.
        async with computer.events() as events:

            async def make_a_file() -> None:
                async with computer.terminal() as terminal:
                    await terminal.send("echo by async > ~/Desktop/async.txt; exit\r")
                    async for _ in terminal:
                        pass

            made = asyncio.create_task(make_a_file())
            async for event in events:
                if event.type == "file_change" and event.data["path"].endswith("/async.txt"):
                    break
            await made
        async with computer.terminal() as terminal:
            await terminal.send("echo at''once\r")
            written, end = "", time.monotonic() + 60
            while "atonce" not in written:
                assert time.monotonic() < end, written
                try:
                    written += await terminal.read(timeout=0) or ""
                except hotdesk.WaitTimeout:
                    await asyncio.sleep(0.02)
        assert await computer.files.read_text("Desktop/async.txt") == "by async\n"
        await computer.files.write("written.txt", "by async")
        assert [it.size for it in await computer.files.list() if it.name == "written.txt"] == [8]
        source = folder / "source.bin"
        await computer.files.upload(source, "large.bin")
        back = await computer.files.download("large.bin", folder / "async.bin")
        assert back.read_bytes() == source.read_bytes()
        launched = await computer.launch("xterm -title other", wait_seconds=60)
        assert launched.window and await computer.close_window(launched.window, force=True)
        picture, ran = await asyncio.gather(computer.screenshot(), computer.bash("echo both"))
        assert picture.size == (1280, 720) and ran.output == "both\n"
        async with computer.control.take(note="async") as lease:
            state = await computer.control.state()
            assert state.note == "async" and state.expires_at == lease.state.expires_at
        assert not (await computer.control.state()).holder
        await computer.client.secrets.set("ASYNC_TOKEN", "x", workspace=(await computer.record()).workspace_id)
    async with AsyncComputer.create(cpu=1) as made_here:
        record = await made_here.record()
        assert record.cpu == 1 and record.status == "running"
    made_to_stay = await AsyncComputer.create(name="stays", keep=True)
    async with made_to_stay:
        pass
    names = [it.name for it in await AsyncComputer.all()]
    assert record.name not in names and "stays" in names, names
    async with AsyncComputer("stays") as stays:
        await stays.delete()


def hear(computer: Computer) -> None:
    with computer.audio() as sound:
        # 20 ms of silence, as 16-bit samples.
        assert len(next(iter(sound))) == 960 and sound.read(timeout=60) is not None


def control(computer: Computer) -> None:
    """One program has the screen, and others wait for it; a request for help is answered, or nobody answers."""
    screen = computer.control
    assert not screen.state().holder
    other_key = keys_create.sync(computer.client, body=CreateKey(name="other"))
    with Client(computer.client.origin, other_key.key) as client:
        other = Computer("python", client=client)
        with screen.take(note="I sign in", seconds=15) as lease:
            assert screen.state().note == "I sign in"
            taken = lease.state.expires_at
            try:
                other.click(1, 1)
            except hotdesk.Conflict as error:
                assert error.code == "control_held", error
            else:
                raise AssertionError("another program clicked on a held screen")
            # It is renewed before its time is over.
            end = time.monotonic() + 60
            while lease.state.expires_at <= taken:
                assert time.monotonic() < end, "no renewal"
                time.sleep(0.1)
            try:
                other.control.wait_until_free(timeout=1)
            except hotdesk.WaitTimeout:
                assert screen.state().expires_at > taken
            else:
                raise AssertionError("the screen was free")
            lease.hand_back("Signed in.")
        assert other.control.wait_until_free(timeout=60).last_hand_back.note == "Signed in."
        assert other.click(1, 1).success
        # The owner of the workspace takes it from whoever has it.
        screen.take()
        with other.control.take(note="Now.", force=True):
            try:
                screen.hand_back()
            except hotdesk.Conflict as error:
                assert error.code == "control_held", error
            else:
                raise AssertionError("a lost screen was handed back")
        assert not screen.state().holder
        answers = threading.Thread(target=answer, args=(other,))
        answers.start()
        assert screen.ask_for_help("Which one?", timeout=60).note == "The first."
        answers.join()
    try:
        screen.ask_for_help("Nobody?", timeout=1)
    except hotdesk.WaitTimeout as error:
        assert "nobody answered" in str(error), error
    else:
        raise AssertionError("somebody answered")


def answer(computer: Computer) -> None:
    """Answers the request for help as soon as there is one."""
    while not computer.control.state().help_:
        time.sleep(0.1)
    computer.control.answer_help("The first.")


def keep_secrets(computer: Computer) -> None:
    secrets = computer.client.secrets
    secrets.set("PYTHON_TOKEN", "first")
    assert secrets.set("PYTHON_TOKEN", "hidden value").name == "PYTHON_TOKEN"
    assert "hidden value" not in str(secrets.list()) and [it.name for it in secrets.list()] == ["PYTHON_TOKEN"]
    computer.sync_secrets("PYTHON_TOKEN")
    assert "hidden value" in computer.bash("cat /root/.env").output
    secrets.delete("PYTHON_TOKEN")
    assert secrets.list() == []


def define_templates(computer: Computer) -> None:
    templates = computer.client.templates
    definition = {"api_version": "hotdesk/v1", "template": {"name": "python-made", "version": "1.0.0"}}
    assert templates.validate(definition).ref == "default/python-made@1.0.0"
    try:
        templates.validate("api_version: hotdesk/v1\ntemplate: {name: 3}\n")
    except hotdesk.InvalidRequest as error:
        assert error.details["errors"], error
    else:
        raise AssertionError("an invalid definition was accepted")
    templates.publish(definition)
    assert [it.ref for it in templates.list()] == ["default/python-made@1.0.0"]
    assert templates.get("python-made@1.0.0").ref == "default/python-made@1.0.0"
    assert "system/desktop@1.0.0" in [it.ref for it in templates.list_global()]
    assert templates.build_status("python-made@1.0.0").status == "not_built"
    templates.delete("python-made@1.0.0")
    built = "python-built@1.0.0"
    steps = {"run": ["echo 'by a step' > /opt/made"]}
    templates.publish({"api_version": "hotdesk/v1", "name": built, "build": steps}, build=True)
    log = list(templates.build_log(built))
    assert (log[-1].phase, log[-1].level) == ("ready", "success"), log
    assert templates.wait_for_build(built).status == "ready"
    with templates.launch(built) as launched:
        assert launched.bash("cat /opt/made").output == "by a step\n"
    templates.delete(built)
    assert templates.list() == []


def record_and_stream(computer: Computer) -> None:
    """The computers of this test have no encoder, and this service sends no stream to private addresses. Both is said."""
    refused = {}
    for start in (
        computer.recordings.start,
        lambda: computer.streaming.start("studio", url="rtmp://127.0.0.1/live", key="k"),
    ):
        try:
            start()
        except hotdesk.ApiError as error:
            refused[error.code] = error.status
    assert refused == {"no_encoder": 409, "private_address": 400}, refused
    assert computer.recordings.list() == [] and computer.streaming.status().status == "idle"
    assert computer.client.connections.list() == []
    try:
        computer.recordings.get(UNKNOWN_ID)
    except NotFound:
        pass
    else:
        raise AssertionError("an unknown recording was read")


def check_client(computer: Computer) -> None:
    """A client that was passed in stays open."""
    with Client() as client:
        with Computer("python", client=client) as same:
            assert same.target()[1] == computer.target()[1]
        assert computers_list.sync(client).total == 1


def main() -> None:
    folder = Path(sys.argv[1])
    with Computer.create(name="python") as computer:
        steps = (type_into_a_file, look, run_commands, use_a_terminal, hear, check_client)
        for step in (*steps, control, keep_secrets, define_templates, record_and_stream):
            step(computer)
            print(step.__name__, flush=True)
        copy_files(computer, folder)
        asyncio.run(with_async("python", folder))
        save_and_roll_back(computer)
        check_errors(computer.client)
    assert not Computer.all(), "the computer was deleted when the block ended"
    print("done")


if __name__ == "__main__":
    main()
