"""xslt: what stylesheets make of documents, as the reference does it; what neither documents nor stylesheets may read."""

import os
import threading

import pytest

from harness import Server, binaries, run_binary
from harness.h2 import H2
from harness.workers import wait_workers

OURS = os.path.join(os.path.dirname(os.path.abspath(binaries.under_test())), "ngx_http_xslt_filter_module.so")
THEIRS = "/usr/lib/nginx/modules/ngx_http_xslt_filter_module.so"
pytestmark = pytest.mark.skipif(not os.path.exists(OURS), reason="xslt was not built")


def sheet(output="", body=None, more=""):
    body = body or ('<p>a=<xsl:value-of select="$a"/> b=<xsl:value-of select="$b"/> data=<xsl:value-of select="/root"/></p>')
    return ('<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">%s%s<xsl:param name="a"/><xsl:param name="b"/>'
            '<xsl:template match="/">%s</xsl:template></xsl:stylesheet>' % (output, more, body))


FILES = {
    "html.xslt": sheet('<xsl:output method="html"/>'), "xml.xslt": sheet('<xsl:output method="xml" encoding="iso-8859-1"/>'),
    "text.xslt": sheet('<xsl:output method="text"/>'), "none.xslt": sheet(),
    "media.xslt": sheet('<xsl:output method="html" media-type="application/x-y" encoding="utf-8"/>'),
    "auto.xslt": sheet(body="<html><body><xsl:value-of select='/root'/></body></html>"),
    "wrap.xslt": sheet(body="<root>wrapped <xsl:value-of select='/root'/></root>"),
    "import.xslt": sheet(more='<xsl:include href="part.xslt"/>', body='<xsl:call-template name="part"/>'),
    "part.xslt": '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">'
                 '<xsl:template name="part"><part/></xsl:template></xsl:stylesheet>',
    "document.xslt": sheet(body="<r><xsl:value-of select=\"document('html/d.xml')/root\"/></r>"),
    "forever.xslt": sheet(more='<xsl:template name="loop"><xsl:call-template name="loop"/></xsl:template>', body='<xsl:call-template name="loop"/>'),
    "nothing.xslt": sheet('<xsl:output method="text"/>', body="<xsl:if test='false()'/>"), "broken.xslt": "<xsl:stylesheet", "e.dtd": '<!ENTITY test "entity">\n',
    "html/d.xml": "<root>da&amp;ta \u00e4</root>".encode(), "html/bad.xml": "<root>x", "html/empty.xml": "", "html/t.txt": "text\n",
    "html/int.xml": '<!DOCTYPE root [<!ENTITY e "int">]><root>&e;</root>', "html/ent.xml": "<!DOCTYPE root><root>&test;</root>",
    "html/ext.xml": '<!DOCTYPE root [<!ENTITY e SYSTEM "file:///etc/hostname">]><root>[&e;]</root>', "html/a.axml": "<root>axml</root>",
    "html/latin.xml": b'<?xml version="1.0" encoding="iso-8859-1"?><root>\xe4</root>', "html/nul.xml": b"<root>\0</root>",
    "html/deep.xml": "<root>" + "<a>" * 200 + "x" + "</a>" * 200 + "</root>",
}

WAYS = [
    "xslt_stylesheet html.xslt a='v1' b=/root;", "xslt_stylesheet html.xslt a='v1':b=/root;", "xslt_stylesheet xml.xslt;", "xslt_stylesheet text.xslt;",
    "xslt_stylesheet none.xslt;", "xslt_stylesheet media.xslt;", "xslt_stylesheet auto.xslt;", "xslt_stylesheet wrap.xslt; xslt_stylesheet html.xslt;",
    "xslt_stylesheet html.xslt; xslt_last_modified on;", "xslt_stylesheet html.xslt; xslt_types text/plain application/x;",
    "xslt_stylesheet html.xslt; xslt_types *;", "xslt_stylesheet html.xslt b=/root; xml_entities e.dtd;",
    "xslt_stylesheet html.xslt; xslt_string_param a $arg_a; xslt_param b $arg_b;", "xslt_stylesheet html.xslt a=$arg_a;",
    "xslt_stylesheet html.xslt; error_page 500 = /empty;", "xslt_stylesheet html.xslt a='%41%26';", "xslt_stylesheet import.xslt;",
    "xslt_stylesheet nothing.xslt;",
]
NAMES = ("d.xml", "bad.xml", "empty.xml", "t.txt", "int.xml", "ent.xml", "a.axml", "latin.xml", "nul.xml", "deep.xml", "missing.xml")
# Pages of errors are no documents, here, though `xslt_types *` is said.
TARGETS = ["/%d/%s" % (way, name) for way in range(len(WAYS)) for name in NAMES if (way, name) != (10, "missing.xml")] + \
    ["/12/d.xml?" + args for args in ("a=it&b=/root", "a='&b='x'", 'a="&b=1+1', "a=x&b=((", "a=x&b=", "a=&b=/none", "a=%27&b=document(%27html/d.xml%27)")] + \
    ["/13/d.xml?a=" + value for value in ("'x'", "'x':b='y'", "'%41'", "", "''")]


def conf(*lines):
    return ("types { text/xml xml; text/plain txt; application/x axml; } server { listen 127.0.0.1:@PORT@; root html; location /empty { return 204; } %s }"
            % "\n".join("location /%d/ { alias html/; %s }" % pair for pair in enumerate(lines)))


@pytest.fixture
def sheets_at(serve):
    def start(*lines, files=(), main=""):
        return serve(conf(*lines), files=dict(FILES, **dict(files)), main="load_module %s;" % OURS + main)
    return start


def summary(server, target, method="GET"):
    with server.client() as client:
        answer = client.request(target, method=method)
    etag = answer.header("ETag")
    body = answer.body if answer.status == 200 else None
    return (answer.status, answer.header("Content-Type"), body, etag[:2] if etag else None, answer.header("Last-Modified"),
            answer.header("Accept-Ranges"), answer.header("Content-Length") if answer.status == 200 else None)


@pytest.fixture(scope="module")
def both():
    if not os.path.exists(THEIRS) or "nginx/" not in binaries.version_text(binaries.reference()):
        pytest.skip("the reference has no xslt")
    servers = []
    for binary, module in ((binaries.under_test(), OURS), (binaries.reference(), THEIRS)):
        server = Server(conf(*WAYS), files=FILES, main="load_module %s;" % module, binary=binary)
        server.start()
        servers.append(server)
    yield servers
    for server in servers:
        server.close(check=server is servers[0])


@pytest.mark.parametrize("target", TARGETS)
def test_as_the_reference(both, target):
    ours, theirs = (summary(server, target) for server in both)
    assert ours == theirs, "%s: ours, theirs" % WAYS[int(target.split("/")[1])]


@pytest.mark.parametrize("target", ["/0/d.xml", "/0/bad.xml", "/8/d.xml", "/0/t.txt"])
def test_head_as_the_reference(both, target):
    ours, theirs = (summary(server, target, "HEAD") for server in both)
    assert ours == theirs


@pytest.mark.parametrize("way, name, lines", [
    ("html.xslt", "empty.xml", "xmlParseChunk.. failed, error:5"), ("html.xslt", "t.xml", "xmlParseChunk.. failed, error:4"),
    ("html.xslt", "bad.xml", "xmlParseChunk.. failed, error:5"), ("nothing.xslt", "d.xml", "xsltSaveResultToString.. returned zero-length result")])
def test_what_failed_is_logged_as_in_nginx(sheets_at, way, name, lines):
    server = sheets_at("xslt_stylesheet %s;" % way, files={"html/t.xml": "text"})
    assert server.get("/0/" + name).status == 500
    server.wait_log(r"\[error\] .*" + lines)


def test_documents_read_nothing(sheets_at):
    """Where the reference gives away any file."""
    server = sheets_at("xslt_stylesheet html.xslt;", "xslt_stylesheet html.xslt; xml_external_entities on;",
                       files={"html/own.xml": '<!DOCTYPE root [<!ENTITY e SYSTEM "file://@DIR@/e.dtd">]><root>[&e;]</root>',
                              "html/net.xml": '<!DOCTYPE root SYSTEM "http://127.0.0.1:1/x.dtd"><root>net</root>'})
    with open("/etc/hostname") as source:
        secret = source.read().strip()
    assert secret not in server.get("/0/ext.xml").text
    assert secret in server.get("/1/ext.xml").text
    assert "data=net" in server.get("/0/net.xml").text and "data=net" in server.get("/1/net.xml").text


def test_stylesheets_read_nothing(sheets_at):
    server = sheets_at("xslt_stylesheet document.xslt;", "xslt_stylesheet html.xslt; xslt_param a $arg_a;")
    assert server.get("/0/d.xml").status == 500
    assert "da&" not in server.get("/1/d.xml?a=document('%s')" % server.path("html/d.xml")).text.split("data=")[0]


def test_entities_do_not_explode(sheets_at):
    laughs = "<!DOCTYPE root [<!ENTITY a0 'ha'>" + "".join("<!ENTITY a%d '%s'>" % (n, "&a%d;" % (n - 1) * 10) for n in range(1, 12)) + "]><root>&a11;</root>"
    server = sheets_at("xslt_stylesheet html.xslt;", files={"html/laughs.xml": laughs, "html/abyss.xml": "<a>" * 100000})
    assert server.get("/0/laughs.xml").status == 500
    assert server.get("/0/abyss.xml").status == 500
    assert server.get("/0/int.xml").status == 200


def test_recursion_ends(sheets_at):
    server = sheets_at("xslt_stylesheet forever.xslt;")
    assert server.get("/0/d.xml").status == 500
    server.wait_log(r"xsltApplyStylesheet\(\) failed")


def test_size_is_bounded(sheets_at, serve):
    backend = serve("types { text/xml xml; } server { listen 127.0.0.1:@PORT@; root html; }",
                    files={"html/large.xml": "<root>" + "x" * 200000 + "</root>", "html/d.xml": "<root>proxied</root>"})
    server = sheets_at("xslt_stylesheet html.xslt; xslt_max_size 100k; proxy_pass http://127.0.0.1:%d/;" % backend.port)
    assert server.get("/0/large.xml").status == 500
    assert "data=proxied" in server.get("/0/d.xml").text
    server.wait_log(r"too large a document for xslt")


def test_settings_are_inherited(serve):
    server = serve("types { text/xml xml; } server { listen 127.0.0.1:@PORT@; root html; xslt_string_param a outer; location / { xslt_stylesheet html.xslt;"
                   " location /in/ { alias html/; } location /own/ { alias html/; xslt_string_param a inner; } } }",
                   files=FILES, main="load_module %s;" % OURS)
    assert "a=outer" in server.get("/d.xml").text and "a=outer" in server.get("/in/d.xml").text and "a=inner" in server.get("/own/d.xml").text


def test_connections_are_kept(sheets_at):
    server = sheets_at(*WAYS[:3])
    with server.client() as client:
        for target in ("/0/d.xml", "/2/d.xml", "/0/t.txt", "/1/d.xml"):
            assert client.request(target).status == 200
            assert client.request(target, method="HEAD").status == 200
        assert client.request("/0/bad.xml").status == 500


def test_reload(sheets_at):
    server = sheets_at(*WAYS[:1])
    old = server.children()
    server.reload()
    wait_workers(server, 1, without=old)
    assert "a=v1" in server.get("/0/d.xml").text


def test_http2(serve):
    server = serve("types { text/xml xml; } server { listen 127.0.0.1:@PORT@; http2 on; root html; xslt_string_param a x; location / { xslt_stylesheet html.xslt; } }",
                   files=FILES, main="load_module %s;" % OURS)
    with H2(server.port) as h2:
        assert b"a=x" in h2.get("/d.xml").body
        assert h2.get("/bad.xml").status == 500
        assert h2.get("/d.xml", "HEAD").body == b""


def test_many_at_one_time(sheets_at):
    server = sheets_at("xslt_stylesheet wrap.xslt; xslt_stylesheet html.xslt a='v1' b=/root;", main="thread_pool xslt threads=4 max_queue=100;")
    found = []

    def ask():
        for _ in range(10):
            found.append(server.get("/0/d.xml").text)
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80 and len(set(found)) == 1 and "a=v1 b=wrapped" in found[0]


@pytest.mark.parametrize("line, message", [
    ("xslt_stylesheet nofile;", "failed"), ("xslt_stylesheet broken.xslt;", "failed"), ("xml_entities nofile;", "failed"),
    ("xslt_param a;", 'invalid number of arguments in "xslt_param" directive'),
    ("xslt_last_modified x;", 'invalid value "x" in "xslt_last_modified" directive, it must be "on" or "off"'),
])
def test_bad_configuration(line, message, tmp_path):
    (tmp_path / "broken.xslt").write_text(FILES["broken.xslt"])
    path = tmp_path / "nginx.conf"
    path.write_text("load_module %s; error_log stderr;\npid nginx.pid;\nevents { }\nhttp { server { location / { %s } } }\n" % (OURS, line))
    result = run_binary("-t", "-c", str(path))
    assert result.returncode == 1 and message in result.stderr


def test_a_tunnel_is_left_alone(serve, backend):
    def echo(conn, request):
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\nContent-Type: text/xml\r\n\r\n")
        conn.sendall(conn.recv(100).upper())
    back = backend([echo])
    server = serve("server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:%d; proxy_set_header Upgrade x; "
                   "proxy_set_header Connection upgrade; xslt_stylesheet html.xslt; } }" % back.port, files=FILES, main="load_module %s;" % OURS)
    with server.client() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
        client.socket.settimeout(10)
        got = b""
        while not got.endswith(b"\r\n\r\n"):
            got += client.socket.recv(100)
        assert got.startswith(b"HTTP/1.1 101 ")
        client.send(b"hello")
        assert client.socket.recv(100) == b"HELLO"
