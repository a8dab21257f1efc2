#!/usr/bin/env python3
"""Scripted language model in the form of OpenAI's Chat Completions API, and the times of its requests and replies.

usage: model_server.py (other benchmarks start it with ModelServer)

A request names its script by the model, and its run by a text of the user: "run 7 of 20 steps". Each reply is a call of the
script, in turn, until the run has its steps. The server stores nothing but times, so runs may be concurrent.
"""

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def call(tool, **arguments):
    return tool, json.dumps(arguments)


# Calls of each script. In `changes` a terminal with the focus prints a page for each line.
SCRIPTS = {
    "changes": [call("computer", action="key", text="Return")],
    "still": [call("computer", action="mouse_move", coordinate=[640, 400])],
    "look": [call("computer", action="screenshot")],
    "command": [call("bash", command="true")],
    "mixed": [call("computer", action="mouse_move", coordinate=[200, 200]),
              call("computer", action="mouse_move", coordinate=[600, 400])],
}
RUN = re.compile(rb"run (\d+) of (\d+) steps")
MODEL = re.compile(rb'"model":"([a-z]+)"')
# A result of a call. hotdesk writes documents without white space.
RESULT = b'"role":"tool"'


class ModelServer:
    """The server in a process of its own: its work takes no time of the benchmark's process."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(10)

    def configuration(self):
        """Lines of a controller's configuration."""
        lines = ['[models]\ndefault = "still"\n[models.backends.local]\nkind = "openai"\n'
                 f'base_url = "http://127.0.0.1:{self.port}/v1"\n']
        lines += [f"[models.backends.local.models.{name}]\ninput = 1.0\noutput = 1.0\n" for name in SCRIPTS]
        return "".join(lines)

    def times(self):
        """Requests of each run since the last call, in their order: when each was there, and when its reply ended. In
        seconds of the clock of `time.perf_counter`, which all processes share."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/times")
        times = json.loads(connection.getresponse().read())
        connection.close()
        return {int(run): requests for run, requests in times.items()}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A reply is several small writes.
    disable_nagle_algorithm = True
    times, lock = {}, threading.Lock()

    def log_message(self, *_):
        pass

    def do_GET(self):
        with self.lock:
            body = json.dumps(self.times).encode()
            self.times.clear()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        arrived = time.perf_counter()
        run, steps = map(int, RUN.search(body).groups())
        model, done = MODEL.search(body).group(1).decode(), body.count(RESULT)
        script = SCRIPTS[model]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.send(frame(model, {"role": "assistant", "content": ""}))
        if done < steps:
            tool, arguments = script[done % len(script)]
            head = {"index": 0, "id": f"call_{run}_{done}", "type": "function", "function": {"name": tool, "arguments": ""}}
            self.send(frame(model, {"tool_calls": [head]}))
            self.send(frame(model, {"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}))
        else:
            self.send(frame(model, {"content": "Done."}))
        reason = "tool_calls" if done < steps else "stop"
        last = frame(model, {}, reason) + frame(model, None) + "data: [DONE]\n\n"
        # Before the last write: a moment in which only hotdesk works belongs to hotdesk.
        with self.lock:
            self.times.setdefault(run, []).append((arrived, time.perf_counter()))
        self.send(last, "0\r\n\r\n")

    def send(self, text, end=""):
        self.wfile.write(f"{len(text.encode()):x}\r\n{text}\r\n{end}".encode())


def frame(model, delta, reason=None):
    """An event of a stream; without `delta` that of the usage."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    document = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices}
    if delta is None:
        document["usage"] = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}
    return f"data: {json.dumps(document)}\n\n"


class Server(ThreadingHTTPServer):
    # All runs connect at once.
    request_queue_size = 256


def main():
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    # Until the benchmark ends.
    sys.stdin.read()


if __name__ == "__main__":
    main()
