"""Layout: length of functions, first lines, formatting, a page in each folder."""

import os
import re
import subprocess

LONGEST = 100


def read_lines(path):
    with open(path, encoding="utf-8") as text:
        return text.read().split("\n")


def comment_before(lines, index):
    """The text of the comment that ends right above lines[index]; empty when there is none."""
    last = index - 1
    if last < 0 or not lines[last].rstrip().endswith("*/"):
        return ""
    first = last
    while first > 0 and "/*" not in lines[first]:
        first -= 1
    return "\n".join(lines[first:last + 1])


def long_functions(paths):
    """Functions over LONGEST lines whose comment gives no reason after the word `long:`.

    .clang-format puts the braces of a function, and of nothing else, alone at the left margin.
    """
    found = []
    for path in paths:
        lines = read_lines(path)
        opened = None
        for number, line in enumerate(lines):
            if line == "{":
                opened = number
            elif line == "}" and opened is not None:
                start = opened
                while start > 0 and lines[start - 1] and not re.match(r"[}#]|.*\*/$",
                                                                      lines[start - 1]):
                    start -= 1
                length = number - start + 1
                comment = comment_before(lines, start)
                if length > LONGEST and not re.search(r"\blong: *\S", comment):
                    found.append("%s:%d: a function of %d lines; its comment does not say why "
                                 "after \"long:\"" % (path, start + 1, length))
                opened = None
    return found


def first_lines(paths):
    return ["%s:1: the first line is not a comment that says what the file is" % path
            for path in paths if not read_lines(path)[0].startswith("/*")]


def missing_pages(top):
    found = []
    for folder, _, names in sorted(os.walk(top)):
        has_sources = any(name.endswith((".c", ".h", ".S")) for name in names)
        if has_sources and "README.md" not in names:
            found.append("%s:1: the folder has no README.md" % folder)
    return found


def unformatted(paths):
    """One fault a file, at the first place where clang-format would write something else."""
    if not paths:
        return []
    output = subprocess.run(["clang-format", "--dry-run", "-Werror"] + paths,
                            capture_output=True, text=True).stderr
    found, seen = [], set()
    for line in output.splitlines():
        match = re.match(r"(.+?):(\d+):\d+: error: ", line)
        if match and match.group(1) not in seen:
            seen.add(match.group(1))
            found.append("%s:%s: not as clang-format lays it out; make format does"
                         % match.groups())
    return found


def format_files(paths):
    if paths:
        subprocess.run(["clang-format", "-i"] + paths, check=True)
