#!/usr/bin/env python3
"""GTK program with one widget of each kind, which writes its events to LOG.

usage: program.py TITLE LOG [ROWS [CELLS]]
"""

import os
import sys

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gtk  # noqa: E402

title, log = sys.argv[1:3]
rows = int(sys.argv[3]) if len(sys.argv) > 3 else 0


def log_line(text):
    with open(log, "a", encoding="utf-8") as file:
        file.write(text + "\n")


def add(box, widget, name, signal=None, describe=lambda widget: ""):
    widget.get_accessible().set_name(name)
    if signal:
        widget.connect(signal, lambda *_: log_line(f"{name} {describe(widget)}".strip()))
    box.pack_start(widget, False, False, 0)
    return widget


window = Gtk.Window(title=title)
window.set_default_size(360, 420)
window.connect("destroy", Gtk.main_quit)
column = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=4)
window.add(column)
add(column, Gtk.Label(label="A label"), "A label")
add(column, Gtk.Button(label="Save"), "Save", "clicked")
add(column, Gtk.CheckButton(label="Agree"), "Agree", "toggled", lambda it: it.get_active())
add(column, Gtk.Entry(text="old"), "Name", "changed", lambda it: it.get_text())
secret = add(column, Gtk.Entry(text="secret"), "Password")
secret.set_visibility(False)
adjustment = Gtk.Adjustment(value=10, lower=0, upper=100, step_increment=1, page_increment=10)
add(column, Gtk.Scale(adjustment=adjustment), "Volume", "value-changed", lambda it: it.get_value())
fixed = add(column, Gtk.Entry(text="fixed"), "Fixed")
fixed.set_editable(False)
removable = add(column, Gtk.Button(label="Remove me"), "Remove me")
removable.connect("clicked", lambda it: it.destroy())
notebook = Gtk.Notebook()
for page in ("First page", "Second page"):
    notebook.append_page(Gtk.Label(label=f"On the {page.lower()}"), Gtk.Label(label=page))
column.pack_start(notebook, False, False, 0)
if len(sys.argv) > 4:
    model = Gtk.ListStore(str, str)
    for number in range(int(sys.argv[4])):
        model.append([f"Cell {number}", f"Size {number}"])
    table = Gtk.TreeView(model=model, fixed_height_mode=True)
    for column_index, text in enumerate(("File", "Bytes")):
        part = Gtk.TreeViewColumn(text, Gtk.CellRendererText(), text=column_index)
        part.set_sizing(Gtk.TreeViewColumnSizing.FIXED)
        part.set_fixed_width(120)
        table.append_column(part)
    frame = Gtk.ScrolledWindow()
    frame.set_min_content_height(120)
    frame.add(table)
    column.pack_start(frame, False, False, 0)
    table.connect("row-activated", lambda _, path, __: log_line(f"row {path}"))
    window.connect("map-event", lambda *_: table.scroll_to_cell(len(model) // 2))
scrolled = Gtk.ScrolledWindow()
inner = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
for number in range(rows):
    button = Gtk.Button(label=f"Row {number}")
    button.connect("clicked", lambda it: log_line(it.get_label()))
    inner.pack_start(button, False, False, 0)
scrolled.add(inner)
column.pack_start(scrolled, True, True, 0)
window.show_all()
log_line(f"shown {os.getpid()}")
Gtk.main()
