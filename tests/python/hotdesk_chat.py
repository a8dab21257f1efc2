"""Runs of a scripted model by the Python library `hotdesk`, which is installed as its wheel.

HOTDESK_URL and HOTDESK_API_KEY: a service whose default model calls `bash` once, says "Done.", "Again." and "Further.", and then
does not answer.
The last line of its output is `done`.
"""

import asyncio
import time

import hotdesk
from hotdesk import AsyncComputer, Computer


def first_run(computer: Computer) -> str:
    """A run as it happens, with its thread; returns the thread's id."""
    with computer.chat.stream("Make a file.") as run:
        text = "".join(event.text for event in run)
    assert run.answer and run.answer.text == text and text.endswith("Done."), (text, run.answer)
    assert run.thread_id == run.answer.run.thread_id and run.answer.run.steps == 1, run.answer
    assert run.answer.usage, run.answer
    assert computer.files.read_text("made.txt") == "by a model\n"
    assert run.thread_id
    return run.thread_id


def threads(computer: Computer, thread: str) -> None:
    chat = computer.chat
    steps = list(chat.steps(thread, follow=True, timeout=60))
    assert [step.call.name for step in steps] == ["bash"], steps
    answer = chat.run("Once more.", thread_id=thread)
    assert answer.text == "Again." and answer.run.thread_id == thread, answer
    chat.rename(thread, "A file")
    assert [(it.id, it.title) for it in chat.threads()] == [(thread, "A file")]
    record = chat.thread(thread)
    assert record.run != "running" and len(record.messages) >= 4, record
    assert chat.stop(thread) is False


def refusals(computer: Computer, thread: str) -> None:
    try:
        computer.chat.run("Hello.", model="no-such-model")
    except hotdesk.InvalidRequest as error:
        assert error.code == "invalid_model" and error.request_id, error
    else:
        raise AssertionError("an unknown model was asked")
    computer.chat.delete(thread)
    try:
        computer.chat.thread(thread)
    except hotdesk.NotFound:
        assert computer.chat.threads() == []
    else:
        raise AssertionError("a deleted thread was read")


async def with_async() -> None:
    async with AsyncComputer("python") as computer:
        async with computer.chat.stream("And you?") as run:
            texts = [event.text async for event in run]
        assert "".join(texts) == "Further.", texts
        assert run.answer and run.thread_id
        assert [step async for step in computer.chat.steps(run.thread_id)] == []


def stops(computer: Computer) -> None:
    """A run in the background is stopped by its thread, and another one ends when its client leaves it."""
    with computer.chat.stream("Think.", background=True) as run:
        pass
    assert run.thread_id and computer.chat.stop(run.thread_id) is True
    until_cancelled(computer, run.thread_id)
    assert computer.chat.stop(run.thread_id) is False
    with computer.chat.stream("Think.") as run:
        pass
    assert run.thread_id
    until_cancelled(computer, run.thread_id)


def until_cancelled(computer: Computer, thread: str) -> None:
    while computer.chat.thread(thread).run == "running":
        time.sleep(0.1)
    assert computer.chat.thread(thread).run == "cancelled"


def main() -> None:
    with Computer.create(name="python") as computer:
        thread = first_run(computer)
        threads(computer, thread)
        refusals(computer, thread)
        asyncio.run(with_async())
        stops(computer)
    print("done")


if __name__ == "__main__":
    main()
