"""The manual: the reference is what the tables say, and links lead somewhere."""

import glob
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
    found += sorted(glob.glob(os.path.join(DOCS, "directives/*.md")))
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
                           "docs"], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_each_variable_has_a_line_in_the_reference():
    """A row of a variable without .doc would be shown as (null)."""
    with open(os.path.join(DOCS, "variables.md"), encoding="utf-8") as page:
        rows = re.findall(r"^\| `\$(\w+)` \| (.*) \|$", page.read(), re.M)
    assert len(rows) > 250
    assert not [name for name, text in rows if not re.match(r"[^(].{3,}\.$", text)]


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


# Modules of the catalogue that have nothing of their own here: parts of others, or there under another name.
COVERED = {"ngx_http_append_header_module", "ngx_http_proxy_v2_module", "ngx_http_status_module", "ngx_http_v2_filter_module",
           "ngx_http_v3_filter_module", "ngx_quic_module", "ngx_stream_write_filter_module"}


def built_and_missing():
    """Names of modules: what auto/modules builds, and what the catalogue of directives has beside that."""
    with open(os.path.join(ROOT, "auto/modules"), encoding="utf-8") as file:
        rows = [row.split() for row in file if row.strip() and not row.startswith("#")]
    built = {row[0] for row in rows if row[2] != "later"}
    with open(os.path.join(ROOT, "src/server/configuration/not_built_rows.h"), encoding="utf-8") as file:
        known = set(re.findall(r'^    \{"(\w+)",', file.read(), re.M))
    return built, (known | {row[0] for row in rows}) - built - COVERED


def test_the_page_of_what_is_not_there_has_each_missing_module_and_no_other():
    with open(os.path.join(DOCS, "what-is-not-there.md"), encoding="utf-8") as page:
        named = set(re.findall(r"`(ngx_\w+_module)`", page.read()))
    built, missing = built_and_missing()
    assert len(missing) > 20  # the lists were found
    assert not sorted(missing - named), "missing modules that docs/what-is-not-there.md does not name"
    assert not sorted(named & built), "modules that are built now: strike them off docs/what-is-not-there.md"


def test_readme_and_performance_have_the_same_figures():
    tables = []
    for name in ("README.md", "docs/performance.md"):
        with open(os.path.join(ROOT, name), encoding="utf-8") as page:
            tables.append(page.read().split("<!-- figures:begin -->")[1].split("<!-- figures:end -->")[0])
    assert tables[0] == tables[1]


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
    text = text.replace("/var/lib/nginx", str(tmp_path))
    text = re.sub(r"(password_file +)\S+;", r"\1%s;" % (tmp_path / "password"), text)
    (tmp_path / "password").write_text("secret")
    for name in set(re.findall(r"ssl_(?:trusted_)?certificate +(\w[\w.-]*)\.crt;", text)):
        Authority(tmp_path / "conf", name)
    for name in re.findall(r"(?:quic_host_key +| key=)([\w.-]+)", text):
        (tmp_path / "conf" / name).write_text("0" * 32)
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
                          "enum handler_result upload_answer(struct request *request);\n" + block.replace("static enum", "enum"))
        done = subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", "-Isrc", "-Iobjs", str(source)],
                              cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout
