#!/usr/bin/env python3
"""Summary of the goals that the other scripts saved."""

import json
import os

from support import RESULTS, goal_line


def main():
    print("\ngoals")
    verdicts = []
    for name in sorted(os.listdir(RESULTS)):
        with open(os.path.join(RESULTS, name)) as file:
            saved = json.load(file)
        for goal in saved["goals"]:
            verdicts.append(goal["verdict"])
            print(goal_line(goal) + (" (quick: not a valid figure)" if saved["quick"] else ""))
    print(f"  {verdicts.count('met')} of {len(verdicts)} met")


if __name__ == "__main__":
    main()
