"""fancyindex: listings that can be sorted, between a header and a footer of one's own; beside Debian's."""

import os
import re

import pytest

from harness import binaries
from harness.h2 import H2
from harness.server import Server, run_binary

OBJECT = "/usr/lib/nginx/modules/ngx_http_fancyindex_module.so"
CONF = """
    default_type text/plain;
    server {
        listen 127.0.0.1:@PORT@; root html;
        location / { fancyindex on; }
        location /off/ { alias html/dir/; }
        location /sized/ { alias html/dir/; fancyindex on; fancyindex_exact_size off; fancyindex_default_sort size_desc; fancyindex_directories_first off;
                           fancyindex_hide_parent_dir on; }
        location /timed/ { alias html/dir/; fancyindex on; fancyindex_time_format "%d.%m.%y & %A"; fancyindex_default_sort date; }
        location /short/ { alias html/dir/; fancyindex on; fancyindex_name_length 10; }
        location /all/ { alias html/dir/; fancyindex on; fancyindex_name_length 0; fancyindex_show_dotfiles on; }
        location /some/ { alias html/dir/; fancyindex on; fancyindex_ignore "\\.txt$" ^B; fancyindex_ignore sub; fancyindex_hide_symlinks on;
                          location /some/in/ { alias html/dir/; } location /some/other/ { alias html/dir/; fancyindex_ignore zeta; } }
        location /framed/ { alias html/dir/; fancyindex on; fancyindex_header /head?x; fancyindex_footer /foot; }
        location /bare/ { alias html/dir/; fancyindex on; fancyindex_header /head; fancyindex_show_path off; }
        location /local/ { alias html/dir/; fancyindex on; fancyindex_header head.html local; fancyindex_footer foot.html local; }
        location /beside/ { alias html/dir/; fancyindex on; fancyindex_header a.txt; }
        location /failing/ { alias html/dir/; fancyindex on; fancyindex_header /nothing subrequest; fancyindex_footer /foot; }
        location /css/ { alias html/dir/; fancyindex on; fancyindex_css_href "/x.css?a&b"; }
        location /both/ { alias html/dir/; fancyindex on; autoindex on; }
        location /index/ { alias html/dir/; fancyindex on; index a.txt; }
        location /nowhere/ { alias html/nowhere/; fancyindex on; }
        location /head { return 200 "<header $args>"; }
        location /foot { return 200 "<footer>"; }
    }"""
FILES = {"html/dir/a.txt": "abc", "html/dir/B.bin": b"x" * 5000, "html/dir/big": b"x" * 3000000, "html/dir/sub/x": "", "html/dir/zeta/x": "",
         "html/dir/we ird&<>\"'%.txt": "x", "html/dir/.hidden": "", "html/dir/" + "n" * 80: "xx", "html/dir/\u00e4" + "\u00f6" * 60: "", "html/empty": None,
         "head.html": "<local header>", "foot.html": "<local footer>"}


def prepare(server):
    os.symlink("a.txt", server.path("html/dir/link"))
    for number, name in enumerate(sorted(os.listdir(server.path("html/dir")))):
        if name != "link":
            os.utime(server.path("html/dir/" + name), (1700000000 + 86400 * ((number * 7) % 11),) * 2)
    return server


@pytest.fixture(scope="module")
def site():
    with prepare(Server(http=CONF.replace("html;", "html; http2 on;"), files=FILES)) as server:
        yield server


@pytest.fixture(scope="module")
def reference():
    if not os.path.exists(OBJECT):
        pytest.skip("no fancyindex of Debian's")
    with prepare(Server(http=CONF, files=FILES, binary=binaries.reference(), main="load_module %s;" % OBJECT)) as server:
        yield server


def rows(text):
    """Link, title, size and date of each row."""
    return re.findall(r'<td class="link"><a href="([^"]*)" title="([^"]*)">.*?</a></td><td class="size"> *([^<]*)</td><td class="date">([^<]*)</td>', text)


def names(server, target):
    return [title for _, title, _, _ in rows(server.get(target).text)]


@pytest.mark.parametrize("target", ["/dir/", "/sized/", "/some/", "/some/in/", "/some/other/", "/empty/"] + ["/dir/" + args for args in (
    "?C=N&O=A", "?C=N&O=D", "?C=S&O=A", "?C=S&O=D", "?C=M&O=A", "?C=M&O=D", "?C=M", "?O=D", "?C=S;O=D", "?O=D&C=S", "?x", "?C=")])
def test_rows_like_debians(site, reference, target):
    # Debian's has no order among equals, such as a file and the link to it; a local header, or a long form of times, ends its worker.
    ours, theirs = ([row for row in rows(server.get(target).text) if row[0] != "link"] for server in (site, reference))
    if "C=S" in target or target == "/sized/":  # directories have the sizes that their file system gives them
        ours, theirs = ([row for row in listed if not row[0].split("?")[0].endswith("/")] for listed in (ours, theirs))
    assert ours == theirs


def test_page(site):
    response = site.get("/dir/")
    assert response.status == 200 and response.header("Content-Type") == "text/html"
    assert "<title>Index of /dir/</title>" in response.text and "<h1>Index of /dir/</h1>" in response.text
    assert response.text.endswith("</body></html>\n") and '<a href="../">Parent directory/</a>' in response.text
    assert "we%20ird%26%3C%3E%22%27%25.txt" in response.text and "we ird&amp;&lt;&gt;&quot;'%.txt</a>" in response.text
    assert ".hidden" not in response.text


def test_asked_order_stays_in_links(site):
    text = site.get("/dir/?C=S&O=D").text
    assert 'href="sub/?C=S&amp;O=D"' in text and 'href="../?C=S&amp;O=D"' in text and 'href="big"' in text


def test_sizes_and_no_parent(site):
    text = site.get("/sized/").text
    assert "Parent" not in text and ">2.9 MiB<" in text and ">4.9 KiB<" in text and ">3 B<" in text
    assert names(site, "/sized/")[0] == "big"


def test_names_are_cut_at_characters(site):
    assert ">" + "n" * 8 + "..&gt;</a>" in site.get("/short/").text
    assert ">\u00e4" + "\u00f6" * 7 + "..&gt;</a>" in site.get("/short/").body.decode()
    assert ">we ird&amp;&lt;..&gt;</a>" in site.get("/short/").text
    assert ">" + "n" * 80 + "</a>" in site.get("/all/").text


def test_what_is_shown(site):
    assert ".hidden" in names(site, "/all/") and "." not in names(site, "/all/")
    assert set(names(site, "/some/")) & {"a.txt", "B.bin", "big", "sub", "link"} == set()
    assert {"a.txt", "sub"} < set(names(site, "/some/other/")) and "zeta" not in names(site, "/some/other/")
    assert "link" in names(site, "/dir/")


def test_times_are_escaped(site):
    assert re.search(r'<td class="date">\d\d\.\d\d\.23 &amp; \w+day</td>', site.get("/timed/").text)


def test_times_are_local_where_one_says_so(serve):
    http = "server { listen 127.0.0.1:@PORT@; root html; fancyindex on; fancyindex_time_format \"%H:%M\"; location /here { alias html; fancyindex_localtime on; } }"
    server = serve(http, main="env TZ;", files={"html/a": ""}, env={**os.environ, "TZ": "XYZ-05:30"})
    shown = [re.search(r'class="date">(\d\d):(\d\d)</td>', server.get(target).text) for target in ("/", "/here/")]
    utc, local = (int(found.group(1)) * 60 + int(found.group(2)) for found in shown)
    assert (local - utc) % 1440 == 330


def test_header_and_footer(site):
    framed = site.get("/framed/").text
    assert framed.startswith("<header x>/framed/</h1>\n<table") and framed.endswith("</table><footer>")
    bare = site.get("/bare/").text
    assert bare.startswith("<header ><table") and bare.endswith("</body></html>\n")
    local = site.get("/local/").text
    assert local.startswith("<local header>/local/</h1>") and local.endswith("</table><local footer>")
    assert site.get("/beside/").text.startswith("abc/beside/</h1>")
    failing = site.get("/failing/").text
    assert "404 Not Found" in failing and "<table id=" in failing and failing.endswith("<footer>")
    assert site.get("/framed/").status == 200


def test_css(site):
    assert '<link rel="stylesheet" href="/x.css?a&amp;b" type="text/css">' in site.get("/css/").text


def test_who_answers(site):
    assert "403 Forbidden" in site.get("/off/").text
    assert "<table" in site.get("/both/").text
    assert site.get("/index/").text == "abc"
    assert site.get("/nowhere/").status == 404
    assert site.get("/dir").status == 301
    assert site.get("/dir/", method="POST").status == 403


def test_keepalive_head_and_http10(site):
    with site.client() as client:
        for _ in range(2):
            assert client.request("/framed/", method="HEAD").status == 200
            assert client.request("/framed/").text.endswith("<footer>")
        assert client.request("/framed/", version="1.0").text.endswith("<footer>")


def test_http2(site):
    with H2(site.port) as client:
        assert client.get("/framed/").body.decode() == site.get("/framed/").body.decode()


def test_names_that_would_be_markup(serve):
    server = serve(CONF, files={**FILES, "html/x/<script>alert(1)</script/y": ""})
    text = server.get("/x/").text + server.get("/x/%3Cscript%3Ealert(1)%3C/").text
    assert "<script>" not in text


@pytest.mark.parametrize("lines, message", [
    ("fancyindex_default_sort x;", 'invalid value "x"'), ("fancyindex_header a b;", 'unknown header/footer kind "b"'),
    ("fancyindex_header nofile local;", 'cannot open file "'), ('fancyindex_ignore "(";', "pcre2_compile() failed: missing closing parenthesis"),
    ("fancyindex_header a; fancyindex_header b;", '"fancyindex_header" directive is duplicate'),
    ("fancyindex_show_path off;", "FancyIndex : cannot set show_path to off without providing a custom header !"),
    ("if ($uri) { fancyindex on; }", '"fancyindex" directive is not allowed here')])
def test_wrong_lines(tmp_path, lines, message):
    path = tmp_path / "nginx.conf"
    path.write_text("events {} http { server { location / { %s } } }" % lines)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path), "-e", "stderr")
    assert done.returncode == 1 and message in done.stderr
