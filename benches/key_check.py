#!/usr/bin/env python3
"""Timing leak of the API key check (A4, docs/authentication-rules.md).

usage: key_check.py

key_check.rs describes the method and measures; this script runs it and saves the results.
"""

import re
import subprocess

from support import Table, arguments

# dudect's threshold of Welch's t: above it, two kinds of input have different times.
DISTINGUISHABLE = 4.5
LABELS = {
    "digest_compare": "comparison of two digests, as in hotdesk",
    "key_look_up": "a complete look-up in a store of 1,001 keys",
    "leaking_compare": "comparison that ends at the first difference (control)",
}


def main():
    arguments("key_check.py", 0)
    ran = subprocess.run(["cargo", "bench", "--bench", "key_check"], check=True, stdout=subprocess.PIPE, text=True)
    found = re.findall(r"^bench (\w+) +\.\.\. : n == \+([\d.]+)M, max t = ([+-][\d.]+)", ran.stdout, re.MULTILINE)
    table = Table("key checks (Welch's t: wrong first against wrong last)", "samples", "|t|")
    figures = {name: abs(float(t)) for name, _, t in found}
    for name, millions, _ in found:
        table.row(LABELS[name], int(float(millions) * 1e6), figures[name])
    for name in ("digest_compare", "key_look_up"):
        table.goal(LABELS[name], figures[name], most=DISTINGUISHABLE, unit="|t|")
    table.goal("the method detects a leaking comparison", figures["leaking_compare"], least=DISTINGUISHABLE, unit="|t|")
    table.save()


if __name__ == "__main__":
    main()
