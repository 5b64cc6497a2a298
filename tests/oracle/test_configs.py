"""Configurations under -t: the server under test says what the reference says."""

import functools

import pytest

from harness import Server, binaries, run_binary

from . import configs

ROWS = [("broken", row) for row in configs.parse(configs.BROKEN)] \
    + [("good", row) for row in configs.parse(configs.GOOD)]


@functools.lru_cache(maxsize=None)
def place():
    """A Server object that only lends its directory and ports."""
    return Server("", files=configs.FILES)


@pytest.fixture(scope="module", autouse=True)
def clean_up():
    yield
    place().close(check=False)
    place.cache_clear()


def check(binary, text, *args):
    server = place()
    server.configure(conf=text)
    return run_binary("-t", *args, "-p", server.dir + "/", "-c", "nginx.conf", "-e", "error.log",
                      binary=binary, cwd=server.dir)


@pytest.mark.parametrize("kind, row", ROWS, ids=[
    "%s %s %s" % (kind, row[0], row[1][:60]) for kind, row in ROWS])
def test_configuration(kind, row):
    level, body, expect = row
    # In a table a line end is written \n; in quotes it stays for the server to decode.
    text = configs.whole(level, body if '"' in body or "'" in body else body.replace("\\n", "\n"))
    got = check(binaries.under_test(), text)
    if expect is not None:
        assert got.returncode == (0 if expect == "ok" else 1), got.stderr
        assert expect == "ok" or expect in got.stderr.split("\n")[0], got.stderr
        return
    reference = check(binaries.reference(), text)
    assert reference.returncode == (0 if kind == "good" else 1), \
        "a fault of the table: " + reference.stderr
    assert got.stderr == reference.stderr
    assert got.returncode == reference.returncode
    assert got.stdout == reference.stdout == ""


def test_dump_shows_every_file_once():
    text = configs.whole("server", "include glob/*.conf; include inc/good.conf; "
                                   "location /a { include inc/good.conf; }")
    got = check(binaries.under_test(), text, "-T")
    reference = check(binaries.reference(), text, "-T")
    assert got.returncode == reference.returncode == 0
    assert got.stdout == reference.stdout
    assert got.stdout.count("# configuration file ") == 4
