"""Layout: length of functions, first lines, formatting, a page in each folder."""

import os
import re
import subprocess

import layers

# Above these lint prints a note.
LONGEST = 70        # lines of a function
SHORTEST = 40       # lines of a .c file, below which it needs a reason (small.txt)
MOST_PARAMETERS = 5


def read_lines(path):
    with open(path, encoding="utf-8") as text:
        return text.read().split("\n")


def functions(paths):
    """(path, line number, its lines up to the brace, number of lines) of each function.

    .clang-format puts the braces of a function, and of nothing else, alone at the left margin.
    """
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
                yield path, start + 1, " ".join(lines[start:opened]), number - start + 1
                opened = None


def long_functions(paths):
    return ["%s:%d: a function of %d lines; above %d it should say why" % (path, line, length, LONGEST)
            for path, line, _, length in functions(paths) if length > LONGEST]


def small_files(paths, reasons):
    """Files that a reader needs a neighbour for, and lines of `reasons`, "PATH REASON" each, that are true no more."""
    allowed = {line.split(" ", 1)[0]: line.partition(" ")[2] for line in reasons if line and not line.startswith("#")}
    small = {path: len(read_lines(path)) - 1 for path in paths if path.endswith(".c") and len(read_lines(path)) <= SHORTEST}
    return (["%s:1: %d lines; below %d join it with what it is read together with, or say in tests/lint/small.txt why not"
             % (path, lines, SHORTEST) for path, lines in sorted(small.items()) if not allowed.get(path)]
            + ["tests/lint/small.txt:1: %s is not a small file" % path for path in sorted(allowed) if path not in small])


def count_parameters(signature):
    """How many a function has, by the text before its brace; what follows a format does not count."""
    inside = signature[signature.index("(") + 1:signature.rindex(")")]
    inside = re.sub(r"\([^()]*\)", "", inside)
    inside = re.sub(r"\([^()]*\)", "", inside)
    parts = [part.strip() for part in inside.split(",")]
    return 0 if parts in ([""], ["void"]) else len(parts) - parts.count("...")


def many_parameters(paths, known):
    """Functions of more than MOST_PARAMETERS, but for `known`, "PATH NAME" each: callbacks that OpenSSL calls."""
    found = []
    for path, line, signature, _ in functions(paths):
        signature = re.sub(r"__attribute__\(\(.*?\)\)+", "", signature)
        match = re.search(r"(\w+)\(", signature)
        if match and count_parameters(signature) > MOST_PARAMETERS and (
                "%s %s" % (path, match.group(1)) not in known):
            found.append("%s:%d: %s has %d parameters; above %d, make a struct of those that go together"
                         % (path, line, match.group(1), count_parameters(signature), MOST_PARAMETERS))
    return found


# What carries a connection is for its owner and the wire formats (layers.KNOW_CONN). conn_ is the prefix of limit_conn, too.
CARRIER = re.compile(r'(?:->|(?<=[\w)\]])\.)conn\b|\bconn->|#include "net/conn/conn\.h"|'
                     r"\bconn_(?!buffer_|zone|limit|rules|outcome|sync|item|exchanged)\w+\(")
# In http/exchange and modules of backends `connection` is one to a backend; the client's belongs to its wire format.
CARRIER_OF_CLIENT = re.compile(r"\brequest->connection->conn\b")
BACKEND_FOLDERS = ("src/http/exchange/", "src/http/modules/backends/")
COMMENT = re.compile(r"/\*.*?(?:\*/|$)|^\s*\*.*")

# So is a client's version: others ask the properties of request/wire.h.
VERSION = re.compile(r"\brequest->(?:main->)?head\.version (?:[<>]=?|[!=]=) HTTP_[23]\b")
VERSION_FOLDERS = ("src/http/v1/", "src/http/v2/", "src/http/v3/")
VERSION_EXCEPTIONS = {
    "src/http/variables/variables_request.c": "$server_protocol, $http2",
    "src/http/modules/access/modsecurity/transaction.c": "the version's name",
}


def looks_at_carrier(sources):
    known = tuple("src/" + name for name in layers.KNOW_CONN)
    found = []
    for path in sources:
        for number, line in enumerate(read_lines(path), 1):
            text = COMMENT.sub("", line)
            if (CARRIER.search(text) and not path.startswith(known)
                    or CARRIER_OF_CLIENT.search(text) and path.startswith(BACKEND_FOLDERS)):
                found.append("%s:%d: looks into struct conn: see KNOW_CONN in tests/lint/layers.py" % (path, number))
            if (VERSION.search(text) and path.startswith("src/http/") and not path.startswith(VERSION_FOLDERS)
                    and path not in VERSION_EXCEPTIONS):
                found.append("%s:%d: asks the version: see request/wire.h" % (path, number))
    return found


# What is asked for now is changed by request_set_uri (http/request/request.h) alone, so that what depends on it is changed, too.
URI_SETTERS = "src/http/request/request.h"
URI_MEMBERS = "uri|args|is_target_stale|uri_has_quoted"
REQUESTS = re.compile(r"\bstruct request \*(?:const )?(\w+)\b")


def sets_uri(sources):
    """Assignments to these members of a request: of what a file declares as one, and of what is called `request` elsewhere."""
    found = []
    for path in sources:
        if not path.startswith("src/http/") or path == URI_SETTERS:
            continue
        lines = read_lines(path)
        names = {"request"}.union(*(REQUESTS.findall(line) for line in lines))
        assigned = re.compile(r"\b(?:%s)->(?:%s)(?:\.\w+)? [-+*/|&^]?=(?!=)" % ("|".join(sorted(names)), URI_MEMBERS))
        found += ["%s:%d: sets the URI of a request: see request_set_uri in http/request/request.h" % (path, number)
                  for number, line in enumerate(lines, 1) if assigned.search(line)]
    return found


def other_atomics(paths):
    """Atomics that are not those of <stdatomic.h>, the one style of the tree."""
    return ["%s:%d: %s: atomics are those of <stdatomic.h>" % (path, number, match.group())
            for path in paths for number, line in enumerate(read_lines(path), 1)
            if (match := re.search(r"\b__(atomic|sync)_\w+", line))]


SECRETS_LIVE_IN = ("src/shared/jose/", "src/http/modules/access/", "src/net/tls/seal")
SECRET = re.compile(r"\b(?:str_equal|str_is|memcmp)\(.*\b\w*(?:nonce|secret|password|hmac|signature|verifier|reset_token)\b")


def compares_secrets(sources):
    """Comparisons that take the longer the more bytes are right: secret_equal is the one of secrets."""
    def is_one(path, line):
        line = re.sub(r'"[^"]*"', '""', line)
        return (SECRET.search(line) or re.search(r"\bCRYPTO_memcmp\(", line)
                or (path.startswith(SECRETS_LIVE_IN) and re.search(r"\bmemcmp\(", line)))

    return ["%s:%d: a secret is compared by secret_equal (base/checksum.h)" % (path, number)
            for path in sources if path != "src/base/checksum.c" for number, line in enumerate(read_lines(path), 1) if is_one(path, line)]


def crowded_tables(paths):
    """Lines with more than one row of a table; clang-format packs rows, so that tables stand outside it."""
    row = re.compile(r"\s+\{[^{}]*\}, +\{.*[^\\;]$")
    return ["%s:%d: more than one row of a table on a line: one each, between clang-format off and on"
            % (path, number) for path in paths for number, line in enumerate(read_lines(path), 1)
            if row.match(line)]


DECLARATION = re.compile(r"^(?!static\b|typedef\b|extern\b|struct \w+ \{|[#/\s}*])[\w *]+?[ *](\w+)\(", re.M)


def definitions(paths):
    """{name: files} of the functions that other files may call."""
    found = {}
    for path, _, signature, _ in functions(paths):
        signature = re.sub(r"__attribute__\(\(.*?\)\)+", "", signature)
        match = re.search(r"([a-z]\w*)\(", signature)
        if match and not signature.startswith("static"):
            found.setdefault(match.group(1), []).append(path)
    return found


def implementations(sources):
    """{header: {file of other name: a function that it implements}} of the functions that headers declare."""
    known = definitions([path for path in sources if path.endswith(".c")])
    found = {}
    for header in sources:
        if header.endswith(".h"):
            for match in DECLARATION.finditer("\n".join(read_lines(header))):
                for path in known.get(match.group(1), []):
                    if path != header[:-2] + ".c":
                        found.setdefault(header, {}).setdefault(path, match.group(1))
    return found


def implemented_elsewhere(sources):
    """A header's functions are in the .c of its name, or the header names the file."""
    found = []
    for header, files in sorted(implementations(sources).items()):
        text = "\n".join(read_lines(header))
        found += ["%s:1: %s is implemented in %s, which the header does not name" % (header, name, path)
                  for path, name in sorted(files.items())
                  if not re.search(r"(?<![\w])%s\b" % re.escape(os.path.basename(path)), text)]
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


# Where pytest does not look for tests by itself (its setting norecursedirs).
NOT_COLLECTED = re.compile(r"build|dist|node_modules|venv|CVS|_darcs|.*\.egg|\..*")


def never_collected(top):
    """Folders whose tests run only when they are named."""
    return ["%s/%s:1: pytest leaves out folders of this name" % (folder, name)
            for folder, names, _ in sorted(os.walk(top)) for name in names if NOT_COLLECTED.fullmatch(name)]


def unformatted(paths):
    """One error a file, at the first place where clang-format would write something else."""
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
