"""Twelve excerpts of src, of 40 to 80 lines each, chosen by a fixed seed.

places.py SEED    prints them, each below its file's name and lines

They are for somebody who knows nginx and has not seen the code: each should be understood within a minute without
looking anything up. What had to be looked up is a name or a comment to improve.
"""

import glob
import os
import random
import sys

COUNT = 12
LEAST, MOST = 40, 80


def starts(lines):
    """Numbers of the lines on which a comment, function or table at the left margin begins."""
    found = []
    for number, line in enumerate(lines):
        begins = line[:1].isalpha() or line.startswith("/*")
        if begins and (number == 0 or not lines[number - 1].strip()):
            found.append(number)
    return found


def excerpts(lines):
    """All (first, end) that begin and end between functions and have a fitting length."""
    bounds = starts(lines) + [len(lines)]
    return [(first, end) for first in bounds for end in bounds if LEAST <= end - first <= MOST]


def chosen(files, seed):
    """COUNT excerpts as (file, first, end), each of another file."""
    dice = random.Random(seed)
    order = sorted(files)
    dice.shuffle(order)
    found = []
    for file in order:
        with open(file, encoding="utf-8") as text:
            options = excerpts(text.read().split("\n"))
        if options:
            found.append((file, *dice.choice(options)))
        if len(found) == COUNT:
            break
    return found


def main():
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    for file, first, end in chosen(glob.glob("src/**/*.c", recursive=True), int(sys.argv[1])):
        with open(file, encoding="utf-8") as text:
            lines = text.read().split("\n")[first:end]
        print("=== %s:%d-%d\n%s\n" % (file, first + 1, end, "\n".join(lines).rstrip()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
