"""auto/serve: what `make serve` runs."""

import os
import signal
import socket
import subprocess
import urllib.request

import pytest

from harness import binaries

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


@pytest.fixture(name="site")
def _site(tmp_path):
    """The server of auto/serve in a build directory of its own: its address."""
    (tmp_path / "nginx").symlink_to(binaries.under_test())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = "127.0.0.1:%d" % probe.getsockname()[1]
    process = subprocess.Popen(["auto/serve", str(tmp_path)], cwd=ROOT, env={**os.environ, "LISTEN": listen},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        for line in iter(process.stdout.readline, ""):
            said += line
            if "what else is there" in line:
                break
        assert "http://%s/dashboard " % listen in said
        for line in process.stderr:
            if "start worker process " in line:
                break
            assert "[emerg]" not in line, line
        yield "http://" + listen
    finally:
        process.send_signal(signal.SIGQUIT)
        process.communicate(timeout=30)


def get(url):
    request = urllib.request.Request(url, headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.geturl(), answer.read().decode("latin-1")


def test_it_opens_onto_the_dashboard_and_has_the_manual(site):
    url, text = get(site + "/")
    assert url == site + "/dashboard" and "<!DOCTYPE html>" in text
    assert '"step_ms":30000' in get(site + "/dashboard?history=0")[1]
    _, page = get(site + "/index.html")
    for path in ("/docs/", "/docs/recipes.md", "/docs/directives.md", "/docs/variables.md", "/status", "/metrics",
                 "/api/9/http/keyvals/banned", "/empty.gif"):
        assert 'href="%s"' % path in page
        assert get(site + path)[1]


def test_the_default_is_this_machine_alone():
    with open(os.path.join(ROOT, "conf/serve.conf"), encoding="utf-8") as conf:
        assert "listen       127.0.0.1:8080;" in conf.read()
