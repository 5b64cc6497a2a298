"""Files that the configuration names and that hold anything: the reading says what is wrong or takes them, and a service that reloads lives."""

import os
import random
import re

import pytest

from harness import binaries, run_binary, until
from harness.certificates import Authority

CHANCE = random.Random(11)
PEM = b"-----BEGIN %s-----\n" + b"QUJD" * 40 + b"\n-----END %s-----\n"

CONTENTS = {
    "nothing": b"", "a byte": b"x", "zeros": bytes(5000), "chance": bytes(CHANCE.randrange(256) for _ in range(3000)), "lines": b"a b c;\n" * 500,
    "one long line": b"x" * 100000, "brackets": b"{" * 3000, "a certificate that is none": PEM % (b"CERTIFICATE", b"CERTIFICATE"),
    "a key that is none": PEM % (b"PRIVATE KEY", b"PRIVATE KEY"), "a list that is none": PEM % (b"X509 CRL", b"X509 CRL"),
    "parameters that are none": PEM % (b"DH PARAMETERS", b"DH PARAMETERS"), "a sheet": b"<?xml version='1.0'?><xsl:stylesheet " + b"<a>" * 500,
    "a database": b"\xab\xcd\xefMaxMind.com" + b"\xe3" * 300, "a table": b"[{\"a\": [" * 300, "a dictionary": b"\x37\xa4\x30\xec" + bytes(64), "a folder": None,
}

FAILURE = r"\[(?:emerg|alert|crit|error)\]"
TLS = "ssl_certificate good.crt; ssl_certificate_key good.key;"
# A line with @FILE@, inside a server of http unless it says something else; and the module that it needs.
LINES = {
    "ssl_certificate @FILE@; ssl_certificate_key good.key; listen 127.0.0.1:@PORT1@ ssl;": None,
    "ssl_certificate good.crt; ssl_certificate_key @FILE@; listen 127.0.0.1:@PORT1@ ssl;": None,
    TLS + "ssl_password_file @FILE@; listen 127.0.0.1:@PORT1@ ssl;": None,
    TLS + "ssl_dhparam @FILE@; listen 127.0.0.1:@PORT1@ ssl;": None,
    TLS + "ssl_client_certificate @FILE@; ssl_verify_client on; listen 127.0.0.1:@PORT1@ ssl;": None,
    TLS + "ssl_trusted_certificate @FILE@; ssl_verify_client optional; ssl_client_certificate good.crt; listen 127.0.0.1:@PORT1@ ssl;": None,
    TLS + "ssl_crl @FILE@; ssl_verify_client on; ssl_client_certificate good.crt; listen 127.0.0.1:@PORT1@ ssl;": None,
    TLS + "ssl_session_ticket_key @FILE@; listen 127.0.0.1:@PORT1@ ssl;": None,
    TLS + "ssl_stapling on; ssl_stapling_file @FILE@; listen 127.0.0.1:@PORT1@ ssl;": None,
    "location / { proxy_pass https://127.0.0.1:1; proxy_ssl_certificate @FILE@; proxy_ssl_certificate_key good.key; }": None,
    "location / { proxy_pass https://127.0.0.1:1; proxy_ssl_trusted_certificate @FILE@; proxy_ssl_crl @FILE@; proxy_ssl_verify on; }": None,
    "include @FILE@;": None,
    "types { include @FILE@; }": None,
    "HTTP map $uri $x { include @FILE@; }": None,
    "HTTP geo $x { include @FILE@; }": None,
    "HTTP geo $x { ranges; include @FILE@; }": None,
    "HTTP keyval_zone zone=z:1m state=@FILE@; keyval $uri $x zone=z;": "ngx_http_keyval_module",
    "HTTP geoip2 @FILE@ { $x country iso_code; }": "ngx_http_geoip2_module",
    "HTTP geoip_country @FILE@;": "ngx_http_geoip_module.so",
    "HTTP geoip_city @FILE@;": "ngx_http_geoip_module.so",
    "HTTP zstd_dict_file @FILE@; zstd on;": "ngx_http_zstd_filter_module",
    "location / { xslt_stylesheet @FILE@; }": "ngx_http_xslt_filter_module.so",
    "HTTP xml_entities @FILE@;": "ngx_http_xslt_filter_module.so",
    "modsecurity on; modsecurity_rules_file @FILE@;": "ngx_http_modsecurity_module.so",
    "HTTP init_by_lua_file @FILE@;": "ngx_http_lua_module",
    "HTTP lua_ssl_trusted_certificate @FILE@;": "ngx_http_lua_module",
    "HTTP upstream u { zone u 1m; state @FILE@; }": "state",
    "location / { fancyindex on; fancyindex_header @FILE@ local; }": "ngx_http_fancyindex_module",
    "location / { auth_basic x; auth_basic_user_file @FILE@; }": None,
}


def configuration(line, module):
    main = ""
    if module is not None and module.endswith(".so"):
        path = os.path.join(os.path.dirname(binaries.under_test()), module)
        if not os.path.exists(path):
            pytest.skip("%s is not built" % module)
        main = "load_module %s;" % path
    elif module is not None and module.startswith("ngx_") and module not in binaries.version_text(binaries.under_test()):
        pytest.skip("%s is not built" % module)
    http, server = (line[5:], "") if line.startswith("HTTP ") else ("", line)
    return main, "%s server { listen 127.0.0.1:@PORT@; location = /alive { return 200 alive; } %s }" % (http, server)


@pytest.mark.parametrize("line", LINES)
def test_files_of_any_contents(serve, open_path, line):
    authority = Authority(open_path)
    authority.issue("good", "DNS:good")
    files = {"good.crt": authority.read("good.crt"), "good.key": authority.read("good.key")}
    server = serve("server { listen 127.0.0.1:@PORT@; location = /alive { return 200 alive; } }", files=files, allow=["."])
    main, http = configuration(line, LINES[line])
    master, refused = server.pid, []
    for number, (name, content) in enumerate(sorted(CONTENTS.items())):
        server.write_tree({"file%d" % number: content})
        server.configure(http.replace("@FILE@", server.path("file%d" % number)), main=main)
        done = run_binary("-t", "-p", server.dir + "/", "-c", "nginx.conf", "-e", "stderr")
        assert done.returncode in (0, 1), (name, done.returncode, done.stderr)
        assert "malloc" not in done.stderr and "AddressSanitizer" not in done.stderr, (name, done.stderr)
        if done.returncode == 1:
            assert re.search(FAILURE, done.stderr), (name, done.stderr)
            refused.append(server.conf)
    if refused:
        server.write("nginx.conf", refused[-1])
        count = len(re.findall(FAILURE, server.error_log))
        server.signal("reload")
        until(lambda: len(re.findall(FAILURE, server.error_log)) > count, server.evidence)
    assert server.is_running() and server.pid == master and server.get("/alive").text == "alive"
