"""The manual: docs/directives.md is what the tables say, and links lead somewhere."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from harness.certificates import Authority
from harness import binaries
from harness.server import run_binary

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
DOCS = os.path.join(ROOT, "docs")

# Options that change neither modules nor defaults; beside them, -V names what is left out anyway.
HARMLESS = ("--builddir=", "--with-cc=", "--with-debug", "--with-sanitizer=", "--with-cc-opt=",
            "--with-ld-opt=", "--prefix=")


def is_harmless(argument):
    with open(os.path.join(ROOT, "auto/modules"), encoding="utf-8") as rows:
        words = [row.split() for row in rows if row.strip() and not row.startswith("#")]
    told = ["--with-" + row[1].split(",")[0] for row in words if row[2] == "with"]
    return argument.startswith(HARMLESS) or argument in told + ["--with-threads", "--with-file-aio"]


def pages():
    found = [os.path.join(ROOT, name) for name in ("README.md", "CHANGES.md", "SECURITY.md")]
    found += [os.path.join(DOCS, name) for name in sorted(os.listdir(DOCS)) if name.endswith(".md")]
    return found


def headings(path):
    """The anchors of a page, as a Markdown reader makes them."""
    anchors = []
    in_code = False
    for line in open(path, encoding="utf-8"):
        in_code ^= line.startswith("```")
        if line.startswith("#") and not in_code:
            name = re.sub(r"[^a-z0-9_ -]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
            before = sum(anchor == name for anchor in anchors)
            anchors += [name, "%s-%d" % (name, before)] if before else [name]
    return anchors


def test_the_list_of_directives_is_up_to_date():
    text = binaries.version_text(binaries.under_test())
    if "Portunus" not in text:
        pytest.skip("not ours")
    arguments = shlex.split(re.search(r"^configure arguments:(.*)$", text, re.M).group(1))
    if not all(is_harmless(argument) for argument in arguments):
        pytest.skip("built with other modules or paths")
    done = subprocess.run([sys.executable, "auto/docs.py", "--check", binaries.under_test(),
                           "docs/directives.md"], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", pages(), ids=os.path.basename)
def test_links_lead_somewhere(path):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", open(path, encoding="utf-8").read(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?:", target):
            continue
        name, _, part = target.partition("#")
        there = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        assert os.path.exists(there), "%s: %s is not there" % (path, target)
        if part:
            assert part in headings(there), "%s: %s has no such heading" % (path, target)


def test_functions_in_diagrams_exist():
    """The boxes of architecture.md are names in the sources: the diagrams are the index to them."""
    text = open(os.path.join(DOCS, "architecture.md"), encoding="utf-8").read()
    boxes = "\n".join(line for line in text.split("\n") if line.startswith("    "))
    names = set(re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b", boxes))
    names |= set(re.findall(r"`(?:struct )?([a-z0-9]+(?:_[a-z0-9]+)+)`", text))
    sources = ""
    for folder, _, files in os.walk(os.path.join(ROOT, "src")):
        for name in files:
            if name.endswith((".c", ".h")):
                sources += open(os.path.join(folder, name), encoding="utf-8").read()
    words = set(re.findall(r"\w+", sources))
    assert len(names) > 40
    assert not sorted(names - words)


def test_every_page_is_in_the_index():
    index = open(os.path.join(DOCS, "README.md"), encoding="utf-8").read()
    for name in os.listdir(DOCS):
        if name.endswith(".md") and name != "README.md":
            assert "(%s)" % name in index, "docs/README.md does not name %s" % name


def test_what_is_not_there_yet_is_not_there():
    """Modules that were built in the meantime are struck off the list."""
    text = open(os.path.join(DOCS, "moving-from-nginx.md"), encoding="utf-8").read()
    words = set()
    for item in re.findall(r"^- (.*(?:\n  .*)*)", text.split("## What is not there yet")[1], re.M):
        words |= set(re.findall(r"`(\w+)`", item))
    built = set()
    with open(os.path.join(ROOT, "auto/modules"), encoding="utf-8") as rows:
        for row in rows:
            columns = row.split()
            if columns and columns[0] != "#" and columns[2] != "later":
                built |= {stem for stem in columns[1].split(",")}
    assert len(words) > 4  # the list was found
    assert not {word for word in words if {word, "http_%s_module" % word} & built}


# ---- examples

def examples():
    """The blocks of the pages that are marked as nginx's language: [(page:line, text)]."""
    found = []
    for path in pages():
        text = open(path, encoding="utf-8").read()
        for block in re.finditer(r"^```nginx\n(.*?)^```$", text, re.S | re.M):
            line = text.count("\n", 0, block.start()) + 2
            found.append(pytest.param(block.group(1), id="%s:%d" % (os.path.basename(path), line)))
    return found


# What an example may be a part of, from outside in.
FRAMES = ("%s", "http { %s }", "http { server { listen 8000; %s } }",
          "http { server { listen 8000; location / { %s } } }")


@pytest.mark.parametrize("text", examples())
def test_examples_are_accepted(tmp_path, text):
    """Each stands in one of the frames without an error or a warning."""
    shutil.copytree(os.path.join(ROOT, "conf"), str(tmp_path / "conf"))
    for name in ("logs", "cache"):
        (tmp_path / name).mkdir()
    text = text.replace("/var/cache/nginx", str(tmp_path / "cache"))
    for name in set(re.findall(r"ssl_certificate +(\w[\w.]*)\.crt;", text)):
        Authority(tmp_path / "conf", name)
    said = []
    for frame in FRAMES:
        (tmp_path / "conf/nginx.conf").write_text(frame % text if re.search(r"^events", text, re.M)
                                                  else "events { }\n" + frame % text)
        done = run_binary("-t", "-p", "%s/" % tmp_path, "-e", "stderr", "-c", "conf/nginx.conf")
        if "is successful" in done.stderr:
            assert done.stderr.count("\n") == 2, done.stderr
            return
        said.append(done.stderr)
    pytest.fail("\n".join(said))


def test_examples_of_code_compile(tmp_path):
    """Those of the chapter on waiting, against the headers as they are."""
    with open(os.path.join(DOCS, "waiting.md"), encoding="utf-8") as page:
        blocks = re.findall(r"^```c\n(.*?)^```$", page.read(), re.S | re.M)
    assert len(blocks) == 2
    for number, block in enumerate(blocks):
        source = tmp_path / ("%d.c" % number)
        source.write_text("#include \"http/request/body.h\"\n#include \"http/request/request.h\"\n"
                          "struct visitor { unsigned uploads, users; };\n"
                          "struct visitor *visitor_find(struct str client);\n"
                          "enum flow upload_answer(struct request *request);\n" + block.replace("static enum", "enum"))
        done = subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", "-Isrc", "-Iobjs", str(source)],
                              cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout
