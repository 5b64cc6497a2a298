"""Pages: every file that a page or a comment names exists, and no generated page is stale."""

import os
import re
import subprocess
import sys

# A page, wherever it is named; and in pages also the places of files of ours.
PAGE = re.compile(r"(?<![\w./@~-])((?:[\w-]+/)*[\w-]+\.md)\b")
PLACE = re.compile(r"(?<![\w./@~<{$-])((?:\.\./)*(?:[\w-]+/)*[\w-]+\.(?:c|h|S|py|mk))(?![\w/])")
FOLDER = re.compile(r"`((?:src|tests|auto|docs|conf|examples)/[\w./-]*)`")
# What configure writes, and files of somebody else that an example speaks of.
ELSEWHERE = ("config.h", "config.mk", "modules.c", "hello.c", "greeting.c", "page.md")


def text_files(tops):
    for top in tops:
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
            for name in sorted(names):
                if name.endswith((".c", ".h", ".S", ".py", ".md", ".mk")):
                    yield os.path.join(folder, name)


def known_names(tops):
    """The base names of all files of the tree: what is named without a folder may lie anywhere."""
    return {name for top in tops for _, _, names in os.walk(top) for name in names}


def named(path):
    """(line number, name) of each file that a text names."""
    is_page = path.endswith(".md")
    with open(path, encoding="utf-8") as text:
        for number, line in enumerate(text, 1):
            for pattern in (PAGE, PLACE, FOLDER) if is_page else (PAGE,):
                for match in pattern.finditer(line):
                    yield number, match.group(1)


def exists(name, path, known):
    if "/" not in name:
        return name in known or name in ELSEWHERE
    folders = (os.path.dirname(path), ".", "src", "tests", "docs", os.path.dirname(os.path.dirname(path)))
    return any(os.path.exists(os.path.join(folder, name)) for folder in folders)


def lost_names(tops, others=()):
    """One error for each file named in the texts below `tops`, and in the files `others`, that is not there."""
    known = known_names(tuple(tops) + ("auto", "conf", "examples")) | set(os.listdir("."))
    found = []
    for path in list(text_files(tops)) + [other for other in others if os.path.isfile(other)]:
        for number, name in named(path):
            if not exists(name, path, known):
                found.append("%s:%d: names %s, which is not there" % (path, number, name))
    return found


def stale_pages(build):
    """The reference in docs/ must be what auto/docs.py makes of the nginx in `build`, where one was linked."""
    program = os.path.join(build, "nginx")
    if not os.path.isfile(program):
        return []
    answer = subprocess.run([sys.executable, "auto/docs.py", "--check", program, "docs"],
                            capture_output=True, text=True)
    return ["docs/directives.md:1: " + (answer.stdout or answer.stderr).strip()] if answer.returncode else []


def errors(build):
    return lost_names(("src", "docs", "tests"), ("README.md", "auto/README.md", "SECURITY.md")) + stale_pages(build)
