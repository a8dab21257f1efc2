"""Web page with one text field, and its server, which writes the field's content to `page.text`. Escape empties the field.

usage: page.py PORT
"""

import http.server
import os
import sys

PAGE = """<!doctype html><meta charset=utf-8><title>receiver</title>
<style>html, body, textarea { width: 100%; height: 100%; margin: 0; box-sizing: border-box }</style>
<textarea spellcheck=false autocomplete=off></textarea>
<script>
const field = document.querySelector("textarea");
let waiting = false, last = Promise.resolve();
const send = (path, body) => last = last.then(() => fetch(path, {method: "POST", body}));
field.addEventListener("keydown", event => {
  if (event.key === "Tab") {
    event.preventDefault();
    document.execCommand("insertText", false, "\\t");
  } else if (event.key === "Escape") {
    field.value = "";
    send("/text", "");
  }
});
field.addEventListener("input", () => {
  if (waiting) return;
  waiting = true;
  setTimeout(() => { waiting = false; send("/text", field.value); }, 50);
});
field.addEventListener("focus", () => send("/ready", ""));
</script>"""


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, content):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        self.answer(PAGE.encode())

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        name = "page." + self.path.strip("/")
        with open(name + ".new", "wb") as file:
            file.write(content)
        os.rename(name + ".new", name)
        self.answer(b"")

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
