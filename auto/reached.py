"""Reads what llvm-cov wrote and says what no test reaches.

reached.py LCOV UNREACHED    prints the share of lines by package and the largest functions that are never
                              entered; all of them, and each branch that is never taken, go to the file UNREACHED
"""

import collections
import os
import sys

SHOWN = 40  # functions in the printed report


class File:
    """The counts of one source file."""

    def __init__(self):
        self.lines = {}         # number -> times
        self.functions = {}     # name -> (first line, times); one of a header has a copy in each file that includes it
        self.branches = {}      # (line, branch) -> times


def read(path):
    """path below the tree -> File, of src alone."""
    files, current, here = {}, None, os.getcwd() + "/"
    with open(path, encoding="utf-8") as rows:
        for row in rows:
            key, _, value = row.rstrip("\n").partition(":")
            if key == "SF":
                name = value[len(here):] if value.startswith(here) else value
                current = files.setdefault(name[name.index("src/"):], File()) if "src/" in name else File()
            elif key == "FN":
                line, name = value.split(",", 1)
                name = name.rpartition(":")[2]
                current.functions.setdefault(name, (int(line), 0))
            elif key == "FNDA":
                times, name = value.split(",", 1)
                name = name.rpartition(":")[2]
                line, former = current.functions[name]
                current.functions[name] = (line, max(former, int(times)))
            elif key == "DA":
                line, times = value.split(",")[:2]
                current.lines[int(line)] = max(current.lines.get(int(line), 0), int(times))
            elif key == "BRDA":
                line, block, branch, times = value.split(",")
                branch, times = (int(line), block, branch), 0 if times == "-" else int(times)
                current.branches[branch] = max(current.branches.get(branch, 0), times)
    return files


def unentered(files):
    """(lines, path, first line, name) of each function that nothing entered, the longest first."""
    found = []
    for path, file in files.items():
        starts = sorted(line for line, _ in file.functions.values())
        for name, (line, times) in file.functions.items():
            if times == 0:
                end = next((start for start in starts if start > line), 1 << 30)
                length = sum(1 for number in file.lines if line <= number < end)
                found.append((length, path, line, name))
    return sorted(found, reverse=True)


def package(path):
    parts = path.split("/")
    return "/".join(parts[:3 if len(parts) > 3 else 2])


def share(reached, total):
    return "%5.1f%% %7d of %d" % (100.0 * reached / total if total else 100.0, reached, total)


def report(files, out):
    totals = collections.defaultdict(lambda: [0, 0])
    for path, file in files.items():
        for key in (package(path), "src"):
            totals[key][0] += sum(1 for times in file.lines.values() if times)
            totals[key][1] += len(file.lines)
    for key in sorted(totals, key=lambda key: (key == "src", key)):
        print("%-28s %s lines" % (key, share(*totals[key])), file=out)
    for what in ("functions", "branches"):
        counts = [times[1] if what == "functions" else times for file in files.values()
                  for times in getattr(file, what).values()]
        print("%-28s %s %s" % ("", share(sum(1 for times in counts if times), len(counts)), what), file=out)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    files = read(sys.argv[1])
    functions = unentered(files)
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        for length, path, line, name in functions:
            print("%s:%d: %s, of %d lines, is never entered" % (path, line, name, length), file=out)
        for path in sorted(files):
            entered = {line for line, times in files[path].lines.items() if times}
            for line in sorted({branch[0] for branch, times in files[path].branches.items() if not times}):
                if line in entered:
                    print("%s:%d: a branch is never taken" % (path, line), file=out)
    for length, path, line, name in functions[:SHOWN]:
        print("%5d lines  %s:%d %s" % (length, path, line, name))
    print("%d functions are never entered; %s names them, and the branches that are never taken\n" % (
        len(functions), sys.argv[2]))
    report(files, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
