"""Checks what docs/architecture.md promises of the sources: layers, circles, length, layout, FFI, pages, words.

lint.py BUILD                     looks at src/ and tests/, and at the objects in BUILD for the calls
lint.py --circles BUILD [PLACE]   every call that ties files into circles, below src/PLACE
lint.py --format                  lays all C files out by .clang-format

Prints one line for each error, as FILE:LINE: TEXT, and exits 1 when there is one. Notes (long functions, many
parameters, large circles in a folder, small files) are printed and fail nothing.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import calls  # noqa: E402
import circles  # noqa: E402
import ffi  # noqa: E402
import includes  # noqa: E402
import layout  # noqa: E402
import pages  # noqa: E402
import words  # noqa: E402


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

    uses, errors = calls.look(sys.argv[1], sources)
    errors += includes.errors(sources)
    errors += layout.other_atomics(sources + tests)
    errors += layout.compares_secrets(sources)
    errors += layout.crowded_tables(sources)
    errors += layout.looks_at_carrier(sources)
    errors += layout.sets_uri(sources)
    errors += layout.first_lines(sources + tests)
    errors += layout.implemented_elsewhere(sources)
    errors += layout.missing_pages("src")
    errors += layout.never_collected("tests")
    errors += layout.unformatted(sources + tests)
    errors += ffi.errors(sys.argv[1], sources)
    errors += pages.errors(sys.argv[1])
    errors += words.errors()

    notes = layout.long_functions(sources)
    with open("tests/lint/parameters.txt", encoding="utf-8") as names:
        notes += layout.many_parameters(sources, names.read().split("\n"))
    notes += circles.large(uses)
    with open("tests/lint/small.txt", encoding="utf-8") as reasons:
        notes += layout.small_files(sources, reasons.read().split("\n"))
    for note in notes:
        print("note: " + note)
    for error in errors:
        print(error)
    print("lint: %d files, %d errors, %d notes" % (len(sources) + len(tests), len(errors), len(notes)))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
