#!/usr/bin/env python3
"""Does the time of a key's check tell where a wrong key goes wrong (access.md A4)?

usage: key_check.py

What is measured, and how, says key_check.rs; this runs it and keeps what it printed.
"""

import re
import subprocess

from kit import Topic, arguments

# Welch's t from which dudect calls two kinds of input told apart.
TOLD_APART = 4.5
WHAT = {
    "digest_compare": "two digests compared, as hotdesk does",
    "key_look_up": "a whole look-up in a store of 1,001 keys",
    "leaking_compare": "two digests compared until they differ (control)",
}


def main():
    arguments("key_check.py", 0)
    ran = subprocess.run(["cargo", "bench", "--bench", "key_check"], check=True, stdout=subprocess.PIPE, text=True)
    found = re.findall(r"^bench (\w+) +\.\.\. : n == \+([\d.]+)M, max t = ([+-][\d.]+)", ran.stdout, re.MULTILINE)
    topic = Topic("key checks (Welch's t: wrong first against wrong last)", "samples", "|t|")
    figures = {name: abs(float(t)) for name, _, t in found}
    for name, millions, _ in found:
        topic.row(WHAT[name], int(float(millions) * 1e6), figures[name])
    for name in ("digest_compare", "key_look_up"):
        topic.goal(WHAT[name], figures[name], most=TOLD_APART, unit="|t|")
    topic.goal("the measure sees a comparison that leaks", figures["leaking_compare"], least=TOLD_APART, unit="|t|")
    topic.keep()


if __name__ == "__main__":
    main()
