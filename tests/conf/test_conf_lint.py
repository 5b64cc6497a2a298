"""`nginx -t --lint`: each trap is found, what looks like it is not, and rules can be switched off."""

import os
import re

import pytest

from harness import binaries, run_binary

pytestmark = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                reason="nginx has no such option")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FRAME = "pid nginx.pid; error_log error.log;\nevents { }\n"


@pytest.fixture
def lint(tmp_path):
    """A function: text to (exit status, [(line, rule)], standard output)."""
    def run(text, *options, frame="http { access_log off;\n%s\n}\n"):
        (tmp_path / "nginx.conf").write_text(FRAME + frame % text)
        done = run_binary("-t", "-q", *(options or ["--lint"]), "-p", "%s/" % tmp_path,
                          "-c", "nginx.conf", "-e", "error.log", cwd=tmp_path)
        assert done.returncode != 1, done.stderr
        found = re.findall(r"^%s/nginx\.conf:(\d+): \[([a-z0-9-]+)\] .+; .+$" % tmp_path, done.stdout, re.M)
        assert len(found) == len(done.stdout.splitlines()), done.stdout
        assert done.returncode == (2 if found else 0)
        return [(int(line), rule) for line, rule in found], done.stdout
    return run


def server(text):
    return "server { listen 127.0.0.1:1;\n%s\n}" % text


# Rule, text in which it finds something in line 5, texts in which it does not.
CASES = [
    ("alias-slash", "location /i { alias /data/; }",
     ["location /i/ { alias /data/; }", "location /i { alias /data; }", "location = /i { alias /data/; }"]),
    ("proxy-pass-slash", "location /i { proxy_pass http://127.0.0.1:1/; }",
     ["location /i/ { proxy_pass http://127.0.0.1:1/; }", "location /i { proxy_pass http://127.0.0.1:1; }",
      "location /i { proxy_pass http://127.0.0.1:1/i; }", "location = /i { proxy_pass http://127.0.0.1:1/; }"]),
    ("proxy-pass-slash", "location ^~ /i { proxy_pass http://127.0.0.1:1/sub/; }", ["location / { proxy_pass http://127.0.0.1:1/; }"]),
    ("try-files-last", "location / { try_files $uri $uri/; }",
     ["location / { try_files $uri $uri/ =404; }", "location / { try_files $uri /i; }", "location / { try_files $uri @a; } location @a { return 404; }"]),
    ("try-files-if", "location / { if ($arg_a) { set $b 1; }\ntry_files $uri /i; }",
     ["location / { if ($arg_a) { return 404; } try_files $uri /i; }", "location / { if ($arg_a) { rewrite ^ /b last; } try_files $uri /i; }",
      "location / { try_files $uri /i; location /b { if ($arg_a) { set $b 1; } } }"]),
    ("try-files-alias", "location ~ ^/i/(.*)$ { alias /data/$1; try_files $uri /x; }",
     ["location ~ ^/i/ { root /data; try_files $uri /x; }", "location /i/ { alias /data/; try_files $uri /x; }"]),
    ("merge-slashes", "merge_slashes off;", ["merge_slashes on;"]),
    ("regex-anchor", "location ~ /admin/ { root /a; }",
     [r"location ~ ^/admin/ { root /a; }", r"location ~ \.php$ { root /a; }",
      r"location ~ \.php(/|$) { root /a; }", r"location ~ /\. { deny all; }",
      r"location ~ /\. { return 404; }", "location /admin/ { root /a; }"]),
    ("regex-anchor", r"location ~* [^/]\.php { root /a; }", [r"location ~* [^/]\.php\z { root /a; }"]),
    ("slow-regex", "location ~ ^/(a+)+$ { root /a; }",
     ["location ~ ^/a+$ { root /a; }", "location ~ ^/(a++)+$ { root /a; }",
      r"location ~ ^/([a-z]+\.)+x$ { root /a; }", "location ~ ^/(?>a+)+$ { root /a; }"]),
    ("slow-regex", r"rewrite ^(/.*)*\.x$ /y last;", [r"rewrite ^(/[^/]*)*\.x$ /y last;"]),
    ("slow-regex", r"if ($arg_a ~ (\w+\s?)+$) { return 404; }", [r"if ($arg_a ~ (\w+\s)+$) { return 404; }"]),
    ("origin-regex", "if ($http_origin ~ example.com) { return 403; }",
     [r"if ($http_origin ~ ^https://example\.com$) { return 403; }", "if ($arg_a ~ b) { return 403; }"]),
    ("if-location", "location /a { if ($arg_a) { root /b; } }",
     ["location /a { if ($arg_a) { return 404; } }", "location /a { if ($arg_a) { rewrite ^ /b last; } }",
      "if ($arg_a) { return 404; }"]),
    ("add-header", "add_header A b; location /a { root /a; } location /b {\nadd_header C d; }",
     ["add_header A b; location /b { add_header C d; add_header a e; }",
      "add_header A b; location /b { add_header_inherit merge; add_header C d; }",
      "location /b { add_header C d; }"]),
    ("proxy-set-header", "proxy_set_header A b; location /b {\nproxy_set_header C d; }",
     ["proxy_set_header A b; location /b { proxy_set_header C d; proxy_set_header A b; }"]),
    ("content-type", "add_header Content-Type text/plain;", ["add_header Content-Language de;"]),
    ("crlf", "location /a { return 302 https://a.example$uri; }",
     ["location /a { return 302 https://a.example$request_uri; }", "location /a { return 200 $uri; }"]),
    ("crlf", "location /a { rewrite ^ https://a.example${document_uri} permanent; }",
     ["location /a { rewrite ^ /b$uri last; }"]),
    ("crlf", "location /a { add_header X-Path $uri; }", ["location /a { add_header X-Path $request_uri; }"]),
    ("host-spoofing", "proxy_set_header Host $http_host;", ["proxy_set_header Host $host;"]),
    ("host-spoofing", "location /a { return 301 https://$http_host/b; }",
     ["location /a { return 301 https://$host/b; }"]),
    ("ssrf", "resolver 127.0.0.1; location /a { proxy_pass http://$arg_to/; }",
     ["resolver 127.0.0.1; location /a { internal; proxy_pass http://$arg_to/; }",
      "location /a { proxy_pass http://127.0.0.1:1/$arg_to; }"]),
    ("ssrf", "resolver 127.0.0.1; location ~ ^/p/([^/]+)/(.*)$ { proxy_pass http://$1/$2; }",
     ["location ~ ^/p/(.*)$ { proxy_pass http://127.0.0.1:1/$1; }"]),
    ("valid-referers", "valid_referers none a.example;", ["valid_referers blocked a.example;"]),
    ("resolver", "set $b back.example; location /a { proxy_pass http://$b/; }",
     ["set $b 127.0.0.1:1; location /a { proxy_pass http://$b/; }",
      "set $b group; location /a { proxy_pass http://$b/; }",
      "set $b back.example; resolver 127.0.0.1; location /a { proxy_pass http://$b/; }",
      "location /a { proxy_pass http://127.0.0.1:1$uri; }"]),
    ("allow-deny", "location /a { allow 10.0.0.1; }",
     ["location /a { allow 10.0.0.1; deny all; }", "location /a { allow all; }"]),
    ("status-access", "listen 127.0.0.1:2; listen *:3; location /a { api write=on; }",
     ["location /a { api write=on; }", "listen *:3; location /a { api; allow 10.0.0.1; deny all; }", "listen *:3; deny all; location /a { api; }",
      'listen *:3; location /a { stub_status; auth_basic "a"; auth_basic_user_file a; }']),
    ("status-access", "listen 3; location /a { stub_status; }", ["location /a { stub_status; }", "listen 3; location /a { internal; stub_status; }"]),
    ("real-ip-from", "set_real_ip_from 0.0.0.0/0;", ["set_real_ip_from 10.0.0.0/8;"]),
    ("return-access", "location /a { deny all; return 200 a; }",
     ["location /a { return 404; deny all; }", "location /a { deny all; root /a; }",
      "deny all; location /a { return 200 a; }"]),
    ("error-page-200", "error_page 404 =200 /a;", ["error_page 404 /a;", "error_page 404 = /a;"]),
    ("weak-tls", "ssl_protocols TLSv1.1 TLSv1.2;", ["ssl_protocols TLSv1.2 TLSv1.3;"]),
    ("weak-tls", "proxy_ssl_protocols TLSv1;", ["proxy_ssl_protocols TLSv1.2;"]),
    ("error-log-off", "error_log off;", ["error_log /dev/null;"]),
    ("weak-ciphers", "ssl_ciphers HIGH:RC4;", ["ssl_ciphers HIGH:!RC4:!aNULL:!MD5;"]),
]


@pytest.mark.parametrize("rule, bad, good", CASES, ids=["%s-%d" % (case[0], number)
                                                        for number, case in enumerate(CASES)])
def test_rule(lint, rule, bad, good):
    groups = "upstream group { server 127.0.0.1:1; }"
    found, output = lint(groups + server(bad))
    assert [name for _, name in found] == [rule], output
    assert found[0][0] == 5 + bad.count("\n"), output
    for text in good:
        assert lint(groups + server(text))[0] == [], text


def test_sizes_of_hash_tables(lint):
    assert lint("server_names_hash_bucket_size 64; types_hash_max_size 2048;")[0] == [
        (4, "hash-size"), (4, "hash-size")]


def test_the_first_of_several_servers(lint):
    named = server("server_name a.example;") + "\n" + server("server_name %s; }\nserver { listen 127.0.0.1:%s; server_name c.example;")
    assert lint(named % ("b.example", "1"))[0] == [(4, "default-server")]
    assert lint(named % ("b.example", "1 default_server"))[0] == []
    assert lint(server("server_name a.example; } server { listen 127.0.0.1:2;"))[0] == []


def test_names_of_a_map_need_a_resolver(lint):
    text = "map $arg_a $b { default %s; x 127.0.0.1; }\n" + server("location /a { proxy_pass http://$b; }")
    assert lint(text % "back.example")[0] == [(6, "resolver")]
    assert lint(text % "127.0.0.2:80")[0] == []


def test_a_comment_switches_a_rule_off(lint):
    assert lint(server("merge_slashes off; # lint: -merge-slashes (paths have empty parts)"))[0] == [], "one"
    assert lint(server("merge_slashes off; # lint: -weak-tls"))[0] == [(5, "merge-slashes")]
    assert lint(server("location ~ /a { # lint: -regex-anchor\nroot /a; }"))[0] == []
    assert lint(server("ssl_protocols\n TLSv1; # lint: -weak-tls, -other"))[0] == []
    assert lint(server("merge_slashes off;\n# lint: -merge-slashes"))[0] == [(5, "merge-slashes")]


def test_an_option_switches_rules_off(lint):
    text = server("merge_slashes off;\nssl_protocols TLSv1;")
    assert lint(text, "--lint=-merge-slashes")[0] == [(6, "weak-tls")]
    assert lint(text, "--lint=-merge-slashes,-weak-tls")[0] == []


def test_nothing_is_said_without_the_option(lint):
    assert lint(server("merge_slashes off;"), "-t") == ([], "")


@pytest.mark.parametrize("value", ["nonsense", "-nonsense", "-weak-tls,", ""])
def test_an_unknown_rule_is_refused(tmp_path, value):
    (tmp_path / "nginx.conf").write_text(FRAME)
    done = run_binary("-t", "--lint=" + value, "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "error.log")
    assert done.returncode == 1 and "-merge-slashes" in done.stderr


def test_the_manual_has_every_rule(tmp_path):
    (tmp_path / "nginx.conf").write_text(FRAME)
    done = run_binary("-t", "--lint=?", "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "error.log")
    names = re.findall(r" -([a-z0-9-]+)", done.stderr.split("between:")[1])
    with open(os.path.join(ROOT, "docs/lint.md"), encoding="utf-8") as page:
        assert re.findall(r"^\| `([a-z0-9-]+)` \|", page.read(), re.M) == names
    assert {case[0] for case in CASES} | {"hash-size", "default-server"} == set(names)


def test_the_installed_configuration_has_no_trap(tmp_path):
    (tmp_path / "logs").mkdir()
    done = run_binary("-t", "--lint", "-p", "%s/" % tmp_path, "-c", os.path.join(ROOT, "conf/nginx.conf"), "-e", "stderr")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
