"""Runs pytest in several processes at a time, which share the test files among them.

side_by_side.py COUNT WORDS...      COUNT processes of `pytest WORDS`; their outputs, and one closing line for all

Most of a test is waiting. Each process is a pytest of its own that knows all tests and runs the files that
it was first to claim, whole and in their order; so what a file shares (a server) is started once. This
file is the plugin of these processes as well.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

import pytest

NOTHING_RAN = 5     # pytest's exit status
_mine = {}


def is_mine(file):
    """Whether this process is the one that runs a file: whoever makes its folder first."""
    if file not in _mine:
        try:
            os.mkdir(os.path.join(os.environ["SIDE_BY_SIDE"], re.sub(r"\W", "_", file)))
            _mine[file] = True
        except FileExistsError:
            _mine[file] = False
    return _mine[file]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """pytest's own, of the items that are ours: what an item's fixtures share is ended by who comes next here."""
    if session.testsfailed or session.config.option.collectonly:
        return None
    mine = (item for item in session.items if is_mine(item.location[0]))
    item = next(mine, None)
    while item is not None:
        following = next(mine, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True


def start(folder, number, words):
    output = open(os.path.join(folder, "output.%d" % number), "w+", encoding="utf-8", errors="replace")
    command = [sys.executable, "-m", "pytest", "-p", "side_by_side", "-o", "console_output_style=classic", *words]
    return output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT,
                                    env=dict(os.environ, SIDE_BY_SIDE=folder))


def closing_counts(text):
    """What pytest's closing line counts: word -> number."""
    last = text.rstrip().rsplit("\n", 1)[-1]
    return {word.removesuffix("s"): int(number)
            for number, word in re.findall(r"(\d+) ([a-z]+)", last.rsplit(" in ", 1)[0])}


def closing_line(counts, seconds):
    parts = ["%d %s" % (counts[word], word) for word in sorted(counts, key=lambda word: (word != "failed", word))]
    return "%s in %.2fs" % (", ".join(parts) or "no tests ran", seconds)


def main():
    if len(sys.argv) < 2 or not sys.argv[1].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    began, counts, statuses = time.monotonic(), {}, []
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as folder:
        started = [start(folder, number, sys.argv[2:]) for number in range(int(sys.argv[1]))]
        for output, process in started:
            statuses.append(process.wait())
        for output, _ in started:
            output.seek(0)
            text = output.read()
            print(text)
            for word, number in closing_counts(text).items():
                counts[word] = counts.get(word, 0) + number
            output.close()
    print(closing_line(counts, time.monotonic() - began))
    if all(status == NOTHING_RAN for status in statuses):
        return NOTHING_RAN
    return next((status for status in statuses if status not in (0, NOTHING_RAN)), 0)


if __name__ == "__main__":
    sys.exit(main())
