"""Checks what docs/architecture.md promises of the sources: layers, circles, length, layout, pages.

lint.py BUILD                     looks at src/ and tests/, and at the objects in BUILD for the calls
lint.py --circles BUILD [PLACE]   every call that ties files into circles, below src/PLACE
lint.py --format                  lays all C files out by .clang-format

Prints one line a fault, as FILE:LINE: TEXT, and exits 1 when there is one.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import calls  # noqa: E402
import circles  # noqa: E402
import includes  # noqa: E402
import layout  # noqa: E402
import pages  # noqa: E402


def c_files(top):
    for folder, _, names in sorted(os.walk(top)):
        for name in sorted(names):
            if name.endswith((".c", ".h")):
                yield os.path.join(folder, name)


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    sources = list(c_files("src"))
    tests = list(c_files("tests"))
    if sys.argv[1:] == ["--format"]:
        layout.format_files(sources + tests)
        return 0
    if sys.argv[1:2] == ["--circles"] and len(sys.argv) in (3, 4):
        uses = calls.uses_of(calls.objects_of(sys.argv[2], sources)[0])
        print("\n".join(circles.listing(uses, "".join(sys.argv[3:]))))
        return 0
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2

    faults = includes.faults(sources)
    faults += calls.faults(sys.argv[1], sources)
    faults += layout.long_functions(sources)
    with open("tests/lint/parameters.txt", encoding="utf-8") as names:
        faults += layout.many_parameters(sources, names.read().split("\n"))
    faults += layout.other_atomics(sources + tests)
    faults += layout.crowded_tables(sources)
    faults += layout.looks_at_carrier(sources)
    faults += layout.first_lines(sources + tests)
    faults += layout.missing_pages("src")
    faults += layout.unformatted(sources + tests)
    faults += pages.faults(sys.argv[1])
    for fault in faults:
        print(fault)
    print("lint: %d files, %d faults" % (len(sources) + len(tests), len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
