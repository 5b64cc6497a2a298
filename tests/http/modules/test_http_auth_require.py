"""auth_require: access where variables have values."""

import pytest

from harness.server import run_binary

SITE = """
    map $arg_a $ok { default $arg_a; }
    server {
        listen 127.0.0.1:@PORT@; auth_require $ok;
        location / { return 200 "in $uri"; }
        location /files { root html; }
        location /several { auth_require $ok $arg_b error=404; auth_require $arg_c error=503; root html; }
        location /any { satisfy any; allow 127.0.0.1; deny all; root html; }
        location /any/not { satisfy any; deny all; root html; }
        location /page { error_page 403 = /forbidden; root html; }
        location = /forbidden { auth_require 1; return 200 "page"; }
        location /methods { auth_require 1; limit_except GET { auth_require $ok; } root html; }
    }
"""


@pytest.fixture(name="site")
def _site(serve):
    return serve(SITE, files={"html/files/a": "a", "html/several/a": "a", "html/any/a": "a", "html/any/not/a": "a", "html/methods/a": "a"})


@pytest.mark.parametrize("path, status", [
    ("/files/a", 403), ("/files/a?a=", 403), ("/files/a?a=0", 403), ("/files/a?a=1", 200), ("/files/a?a=false", 200),
    ("/several/a?a=1", 404), ("/several/a?a=1&b=1", 503), ("/several/a?a=1&b=0&c=1", 404), ("/several/a?a=1&b=1&c=1", 200),
    ("/any/a", 200), ("/any/not/a", 403), ("/any/not/a?a=1", 200),
    ("/", 200)])  # return is in the rewrite phase, before access
def test_statuses(site, path, status):
    with site.client() as client:
        assert client.request(path).status == status
        assert client.request(path, method="HEAD").status == status
    assert ("is not met" in site.error_log) == (status in (403, 404, 503))


def test_page_and_methods(site):
    with site.client() as client:
        assert client.request("/page").text == "page"
        assert client.request("/methods/a").status == 200
        assert client.request("/methods/a", method="DELETE").status == 403


@pytest.mark.parametrize("line, error", [
    ("auth_require;", "invalid number of arguments"), ("auth_require error=404;", 'no values in "auth_require"'),
    ("auth_require $uri error=200;", 'invalid parameter "error=200"'), ("auth_require $uri error=600;", 'invalid parameter "error=600"'),
    ("auth_require $nowhere;", 'unknown "nowhere" variable')])
def test_errors(tmp_path, line, error):
    (tmp_path / "nginx.conf").write_text("events {} http { %s server { listen unix:x; } }" % line)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr")
    assert result.returncode == 1 and error in result.stderr
