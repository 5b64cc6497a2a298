"""Every configuration in the manual passes `nginx -t` where it belongs, but for files of the reader's."""

import glob
import os
import re

import pytest

from harness import binaries, run_binary

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
PAGES = sorted(glob.glob(ROOT + "/docs/*.md")) + [ROOT + "/README.md"]
# What is missing on the machine of the test, not in the example.
MISSING = re.compile("No such file|cannot read|Failed to open the file|Error opening|xsltParseStylesheetFile|is not in the environment|needs a \"password_file\"")
# Examples that are a part of a block with a name, or need something that is built elsewhere.
BLOCKS = {
    "dns_hook": "events {} http { acme_issuer a { uri https://a.test/; accept_terms_of_service; %s } }",
    "acme_certificate": "events {} http { acme_issuer letsencrypt { uri https://a.test/; accept_terms_of_service; } "
                        "server { listen unix:s; server_name a.test; %s } }",
}
CONTEXTS = ("%s", "events {} %s", "events {} http { %s }", "events {} http { server { listen unix:s; %s } }",
            "events {} http { server { listen unix:s; location / { %s } } }", "events {} stream { %s }")
ELSEWHERE = "ngx_http_hello_module"
LEAST = 100  # examples, or they are not found any more


def blocks(path):
    """(line number, text) of each block of code: fenced without a language or as nginx, or indented by four spaces."""
    fence, start, lines = None, 0, []
    with open(path, encoding="utf-8") as page:
        rows = page.read().split("\n") + ["."]
    for number, row in enumerate(rows, 1):
        mark = re.match(r"```(\w*)", row)
        if mark and fence is None:
            fence, start, lines = mark.group(1) or "nginx", number + 1, []
        elif mark:
            if fence == "nginx":
                yield start, "\n".join(lines)
            fence, lines = None, []
        elif fence is not None:
            lines.append(row)
        elif row.startswith("    ") and (lines or not rows[number - 2].strip()):
            start = start if lines else number
            lines.append(row[4:])
        elif lines and not row:
            lines.append(row)
        elif lines:
            yield start, "\n".join(lines)
            lines = []


def is_configuration(text):
    code = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    return bool(code) and re.match(r"[a-z_0-9]+( .*)?[;{}]\s*(#.*)?$", code[0]) is not None and \
        not re.match(r"(static|const|struct|enum|import|local)\b|\w+ \w+\(", code[0]) and "…" not in text and ELSEWHERE not in text


def examples():
    return [(path, line, text) for path in PAGES for line, text in blocks(path) if is_configuration(text)]


def errors_of(folder, conf):
    (folder / "nginx.conf").write_text(conf)
    done = run_binary("-t", "-q", "-p", "%s/" % folder, "-c", "nginx.conf", "-e", "stderr")
    return [line for line in done.stderr.split("\n") if "[emerg]" in line and not MISSING.search(line)]


def complain(folder, text):
    """The errors of an example in the context where it has the fewest."""
    modules = "".join(re.findall(r"(?m)^load_module .*\n", text))
    text = re.sub(r"(?m)^load_module .*\n", "", text)
    named = [context for word, context in BLOCKS.items() if re.match(word, text)]
    least = None
    for context in named or CONTEXTS:
        errors = errors_of(folder, modules + context.replace("%s", "\n" + text + "\n"))
        if not errors:
            return []
        if least is None or len(errors) < len(least):
            least = errors
    return least


@pytest.fixture(name="folder")
def _folder(tmp_path):
    """A prefix with what an installation has."""
    for name in ("logs", "html"):
        (tmp_path / name).mkdir()
    for name in ("mime.types", "fastcgi.conf", "fastcgi_params", "uwsgi_params", "scgi_params"):
        os.symlink("%s/conf/%s" % (ROOT, name), tmp_path / name)
    os.symlink(os.path.dirname(os.path.abspath(binaries.under_test())), tmp_path / "modules")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=[os.path.basename(path) for path in PAGES])
def test_examples_of(page, folder):
    wrong = {line: errors for path, line, text in examples() if path == page for errors in [complain(folder, text)] if errors}
    assert not wrong


def test_examples_are_found():
    assert len(examples()) >= LEAST
