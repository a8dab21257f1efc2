"""Full-screen text field of a GUI toolkit that writes its content to a file.

usage: receiver.py gtk|qt

Writes `ready` when it has the focus, and `text` (atomically, by renaming) after each change.
"""

import os
import sys

PAUSE_MS = 30


def write_text(text):
    with open("text.new", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.rename("text.new", "text")


def ready():
    open("ready", "w").close()


def gtk():
    import gi

    gi.require_version("Gtk", "3.0")
    from gi.repository import GLib, Gtk

    window, view = Gtk.Window(title="receiver"), Gtk.TextView()
    scroll = Gtk.ScrolledWindow()
    scroll.add(view)
    window.add(scroll)
    buffer = view.get_buffer()
    waiting = []

    def write():
        waiting.clear()
        write_text(buffer.get_text(*buffer.get_bounds(), True))

    def changed(_):
        if not waiting:
            waiting.append(GLib.timeout_add(PAUSE_MS, write))

    buffer.connect("changed", changed)
    view.connect("focus-in-event", lambda *_: ready())
    window.fullscreen()
    window.show_all()
    Gtk.main()


def qt():
    from PyQt5.QtCore import QTimer
    from PyQt5.QtWidgets import QApplication, QPlainTextEdit

    class Field(QPlainTextEdit):
        def focusInEvent(self, event):
            super().focusInEvent(event)
            ready()

    program, field, timer = QApplication(sys.argv), Field(), QTimer()
    timer.setSingleShot(True)
    # The raw text, because toPlainText() replaces some kinds of spaces.
    timer.timeout.connect(lambda: write_text(field.document().toRawText().replace("\u2029", "\n")))
    field.textChanged.connect(lambda: timer.isActive() or timer.start(PAUSE_MS))
    field.showFullScreen()
    program.exec_()


{"gtk": gtk, "qt": qt}[sys.argv[1]]()
