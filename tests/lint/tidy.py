"""clang-tidy (.clang-tidy) and cppcheck on the sources of src.

tidy.py BUILD          on those that changed since main, or, on main itself, with the last commit; MOST of them
tidy.py BUILD --all    on all: half an hour of one processor
tidy.py BUILD --cppcheck    cppcheck alone, on all

BUILD is a configured build directory: its flags are used. A finding is fixed, or suppressed at its line with the reason:
/* NOLINT(CHECK): reason */, or in the line above /* cppcheck-suppress ID ; reason */.
"""

import os
import re
import subprocess
import sys

MOST = 40
AT_ONCE = os.cpu_count() or 1
# What gcc and clang do not share, and what only costs time here.
LEFT_OUT = re.compile(r"-O\d|-fcf-protection\S*|-D_FORTIFY_SOURCE\S*|-U_FORTIFY_SOURCE|-Werror\S*|-fstack-\S*|-fsanitize\S*")
CPPCHECK = ["cppcheck", "--quiet", "--enable=warning,portability", "--inline-suppr", "--std=c11", "--max-configs=1",
            "--library=tests/lint/cppcheck.cfg", "--error-exitcode=1", "-Isrc"]


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.split()


def changed():
    """C files of src that differ from main; on main itself, from the commit before."""
    try:
        [head], [base] = git("rev-parse", "HEAD"), git("merge-base", "HEAD", os.environ.get("LINT_BASE", "main"))
        return sorted(git("diff", "--name-only", "--diff-filter=d", base if base != head else "HEAD~1", "--", "src/*.c"))
    except subprocess.CalledProcessError:
        return []  # not a checkout, or one without history


def flags_of(build):
    with open(os.path.join(build, "config.mk"), encoding="utf-8") as rows:
        flags = next(row for row in rows if row.startswith("CONFIGURED_CFLAGS"))
    return ["-std=gnu17", "-Isrc", "-I" + build] + LEFT_OUT.sub("", flags.split("=", 1)[1]).split()


def findings(output):
    """Each finding once: those in headers come again with every source."""
    seen = {}
    for part in re.split(r"(?m)^(?=\S+:\d+:\d+: (?:warning|error): )", output):
        if re.match(r"\S+:\d+:\d+: ", part):
            seen.setdefault(part.split("\n", 1)[0], part.rstrip("\n"))
    return list(seen.values())


def tidy(paths, flags):
    running, output = [], ""
    for start in range(0, len(paths), 8):
        if len(running) == AT_ONCE:
            output += running.pop(0).communicate()[0]
        running.append(subprocess.Popen(["clang-tidy", "--quiet", *paths[start:start + 8], "--", *flags],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
    for process in running:
        output += process.communicate()[0]
    return findings(output)


def cppcheck(paths, build):
    run = subprocess.run([*CPPCHECK, "-I" + build, "-j", str(AT_ONCE), *paths], capture_output=True, text=True, check=False)
    return [run.stderr.rstrip("\n")] if run.returncode != 0 else []


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--all"], ["--cppcheck"]):
        print(__doc__, file=sys.stderr)
        return 2
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    if sys.argv[2:]:
        paths = git("ls-files", "src/*.c")
    else:
        paths = changed()
        if len(paths) > MOST:
            print("tidy: %d of %d changed files; make tidy looks at all" % (MOST, len(paths)))
    paths = paths if sys.argv[2:] else paths[:MOST]
    found = cppcheck(paths, sys.argv[1]) if paths else []
    if paths and sys.argv[2:] != ["--cppcheck"]:
        found += tidy(paths, flags_of(sys.argv[1]))
    for finding in found:
        print(finding)
    print("tidy: %d files, %d findings" % (len(paths), len(found)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
