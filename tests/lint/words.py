"""Words: what the code and its texts do not say, since the field has a plainer word; and spelling, by codespell."""

import os
import re
import subprocess

# In comments, strings and pages.
RETIRED = (
    (r"told", "reported, logged, called, known"),
    (r"whoever", "the code that, users who, a client that"),
    (r"anew", "again, or re-"),
    (r"goes on", "continues"),
    (r"mend(?:s|ed)?", "repair, fix"),
    (r"at rest", "idle"),
    (r"drinks?", "reads"),
    (r"(?:its|their) kin", "similar, related"),
    (r"given up", "abandoned"),
    (r"floors?", "layer"),
    (r"films?", "video"),
    (r"understood and without effect", "accepted and ignored"),
    (r"the words of `\w+`", "the parameters of"),
    (r"a try", "an attempt"),
)
# Parts of names, between underscores.
RETIRED_IN_NAMES = ("told", "whoever", "anew", "mended", "drink", "film", "films", "floor", "floors", "house", "door",
                    "keeper", "wish", "patience", "describer", "uniq", "tie", "flow_again", "rooms")
TEXT = re.compile(r"\b(?:%s)(?![\w-])" % "|".join("(%s)" % word for word, _ in RETIRED), re.I)
NAME = re.compile(r"(?:^|_)(%s)(?=_|$)" % "|".join(RETIRED_IN_NAMES), re.I)

# "PATH WORD REASON", one a line.
EXCEPTIONS = "tests/lint/words.txt"
# For codespell: one word a line; lines with a number sign are for readers.
CORRECT = "tests/lint/spelling.txt"
PLACES = ("src", "docs", "conf", "auto", "examples", "configure", "Makefile", "README.md", "CHANGES.md", "SECURITY.md")

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|[A-Za-z_]\w*', re.S)
# A comment, whole or line of a longer one, that continues the line above.
ELLIPSIS = re.compile(r"/\*\s*(?:\*\s*)?(?:…|\.\.\.)")


def exceptions(path=EXCEPTIONS):
    """{(path, word)} of the list; a line without a reason counts for nothing."""
    with open(path, encoding="utf-8") as lines:
        rows = [line.split(None, 2) for line in lines if not line.startswith("#")]
    return {(row[0], row[1].lower()) for row in rows if len(row) == 3}


def in_text(text):
    """(offset, word, what to write instead) of each retired word."""
    for match in TEXT.finditer(text):
        yield match.start(), match.group(), RETIRED[match.lastindex - 1][1]


def in_source(text):
    """The same of C: comments and strings as text, names by their parts."""
    for token in TOKEN.finditer(text):
        first = token.group()[0]
        if first in "/\"":
            for offset, word, instead in in_text(token.group()):
                yield token.start() + offset, word, instead
            if ELLIPSIS.match(token.group()):
                yield token.start(), "...", "a comment that is a sentence of its own"
        elif first != "'" and (match := NAME.search(token.group())):
            yield token.start(), match.group(1), "a name with the field's word"


def files_of(places):
    for place in places:
        if os.path.isfile(place):
            yield place
        for folder, _, names in sorted(os.walk(place)):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".md", ".html", ".conf", ".8")):
                    yield os.path.join(folder, name)


def retired(paths, allowed):
    found = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for offset, word, instead in (in_source if path.endswith((".c", ".h")) else in_text)(text):
            if (path, word.lower()) not in allowed:
                found.append("%s:%d: \"%s\": write %s" % (path, text.count("\n", 0, offset) + 1, word, instead))
    return found


def misspelt(places):
    run = subprocess.run(["codespell", "-q", "3", "-S", "*/go.mod,*/go.sum", "-I", CORRECT, *places], capture_output=True, text=True, check=False)
    return ["%s (%s has words that are right)" % (line, CORRECT) for line in run.stdout.splitlines()]


def errors():
    places = [place for place in PLACES if os.path.exists(place)]
    return retired(files_of(places), exceptions()) + misspelt(places + ["tests"])
