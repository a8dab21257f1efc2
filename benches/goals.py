#!/usr/bin/env python3
"""Which goals were met, and which missed, by the figures that the other scripts kept?"""

import json
import os

from kit import RESULTS, goal_line


def main():
    print("\ngoals")
    verdicts = []
    for name in sorted(os.listdir(RESULTS)):
        with open(os.path.join(RESULTS, name)) as file:
            kept = json.load(file)
        for goal in kept["goals"]:
            verdicts.append(goal["verdict"])
            print(goal_line(goal) + (" (quick: worth nothing)" if kept["quick"] else ""))
    print(f"  {verdicts.count('met')} of {len(verdicts)} met")


if __name__ == "__main__":
    main()
