"""HTTP/1.x itself: request lines, fields, versions, pipelining, bodies, limits."""

from ..engine import Config

CONFIGS = [
    Config("request_line", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location / { return 200 "$request_method $uri $args $server_protocol\n"; }
        }
        """, r"""
        RAW GET / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GET / HTTP/1.0\r\n\r\n
        RAW GET / HTTP/1.1\nHost: x\n\n
        RAW \r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW \r\n\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GET  / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GET /  HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GET / HTTP/1.1 \r\nHost: x\r\n\r\n
            => 200 kept | body~  HTTP/1.1\n -- 1.22 takes the blank into $server_protocol
        RAW GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n
        RAW  GET / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW get / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GeT / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW G-T / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW G_T / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW G.T / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW G1 / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW 1G / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW PROPFIND / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW VERYLONGMETHODNAMEVERYLONG / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GET HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GET / HTTP/1.2\r\nHost: x\r\n\r\n
        RAW GET / HTTP/1.9\r\nHost: x\r\n\r\n
        RAW GET / HTTP/1.10\r\nHost: x\r\n\r\n
        RAW GET / HTTP/2.0\r\nHost: x\r\n\r\n
        RAW GET / HTTP/3\r\nHost: x\r\n\r\n
        RAW GET / HTTP/0.9\r\nHost: x\r\n\r\n
        RAW GET / HTTP/1\r\nHost: x\r\n\r\n
        RAW GET / HTTP/1.\r\nHost: x\r\n\r\n
        RAW GET / HTTP/a.b\r\nHost: x\r\n\r\n
        RAW GET / HTP/1.1\r\nHost: x\r\n\r\n
        RAW GET / http/1.1\r\nHost: x\r\n\r\n
        RAW GET / HTTPS/1.1\r\nHost: x\r\n\r\n
        RAW GET / FTP/1.1\r\nHost: x\r\n\r\n
        RAW GET /a b HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GET /\x7f HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GET /?\x1f HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GET /?\x80 HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GE\x00T / HTTP/1.1\r\nHost: x\r\n\r\n
        RAW GET / HTTP/1.1\r\r\nHost: x\r\n\r\n
        RAW \xff\xfe\xfd\r\n\r\n
        RAW PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n
        BARE GET /\r\n
        BARE GET /x?y\n
        BARE POST /\r\n
        RAW[2] GET /1 HTTP/1.1\r\nHost: x\r\n\r\n\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n
        RAW[2] GET /1 HTTP/1.1\nHost: x\n\nGET /2 HTTP/1.1\nHost: x\n\n
        RAW[2] GET /1 HTTP/1.1\r\nHost: x\r\n\r\nBAD\r\n\r\n
        RAW[3] GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /3 HTTP/1.1\r\nHost: x\r\n\r\n
        GET /1 HTTP/1.0 | Connection: keep-alive && GET /2 HTTP/1.0 | Connection: keep-alive
        GET /1 && HEAD /2 && GET /3 && OPTIONS /4 && GET /5
        """),

    Config("fields", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location / { return 200 "[$http_x][$http_host][$content_length]\n"; }
        }
        """, r"""
        RAW GET / HTTP/1.1\r\nHost:x\r\nX:y\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX:   y  \r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX: a  b\r\n\r\n
        RAW GET / HTTP/1.1\r\nHOST: x\r\nx: y\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX\r\n\r\n
            => 400 closed -- the strict parser refuses a line without a colon
        RAW GET / HTTP/1.1\r\nHost: x\r\n: novalue\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX : y\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX\t: y\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\n X: y\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n folded\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n\tfolded\r\n\r\n
        RAW GET / HTTP/1.1\r\n Host: x\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX Y: z\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX\x00: a\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX: a\x01b\r\n\r\n
            => 400 closed -- control bytes are refused (issue)
        RAW GET / HTTP/1.1\r\nHost: x\r\nX: a\x7fb\r\n\r\n
            => 400 closed -- control bytes are refused (issue)
        RAW GET / HTTP/1.1\r\nHost: x\r\nX: a\tb\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX\x01: a\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX"Q: a\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX: caf\xc3\xa9\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nX: y
            => 400 closed -- not reached, see below
        RAW GET / HTTP/1.1\r\nHost: x\nX: y\r\n\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 00\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\na
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\na
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1 1\r\n\r\na
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1,1\r\n\r\na
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: \r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775808\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na
        RAW GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
            => 200 -- the length of a chunked body is known once it was read, and return does not read it
        RAW GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n
            => 200 -- the length of a chunked body is known once it was read, and return does not read it
        RAW GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\r\n
        RAW GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
        RAW GET / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
        """.replace(r"""
        RAW GET / HTTP/1.1\r\nHost: x\r\nX: y
            => 400 closed -- not reached, see below""", "")),

    Config("bodies", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location /return { return 200 "answered\n"; }
            location /small { client_max_body_size 5; return 200 "small\n"; }
            location /none { client_max_body_size 0; return 200 "none\n"; }
            location /static { alias html/; client_max_body_size 5; }
            location /errpage { client_max_body_size 5; error_page 413 = /return; alias html/; }
            location /404 { }
        }
        """, r"""
        POST /return << hello
        POST /return | Content-Length: 0
        POST /return
        POST /return << hello && GET /return
        POST /return | Transfer-Encoding: chunked << 5\r\nhello\r\n0\r\n\r\n
        POST /return | Transfer-Encoding: chunked << 5\r\nhello\r\n0\r\n\r\n && GET /return
        POST /return | Transfer-Encoding: chunked << 2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n && GET /return
        POST /return | Transfer-Encoding: chunked << 05\r\nhello\r\n0\r\n\r\n && GET /return
        POST /return | Transfer-Encoding: chunked << A\r\n0123456789\r\n0\r\n\r\n && GET /return
        POST /return | Transfer-Encoding: chunked << a\r\n0123456789\r\n0\r\n\r\n && GET /return
        POST /return | Transfer-Encoding: chunked << 5;ext=1\r\nhello\r\n0\r\n\r\n && GET /return
        POST /return | Transfer-Encoding: chunked << 5;ext="a;b"\r\nhello\r\n0;last\r\n\r\n && GET /return
        POST /return | Transfer-Encoding: chunked << 5\r\nhello\r\n0\r\nX-Trailer: t\r\n\r\n && GET /return
        POST /return | Transfer-Encoding: chunked << 5\r\nhello\r\n000\r\n\r\n && GET /return
        POST /return | Transfer-Encoding: chunked << x\r\n
        POST /return | Transfer-Encoding: chunked << -5\r\nhello\r\n0\r\n\r\n
        POST /return | Transfer-Encoding: chunked << 0x5\r\nhello\r\n0\r\n\r\n
        POST /return | Transfer-Encoding: chunked << \r\n5\r\nhello\r\n0\r\n\r\n
        POST /return | Transfer-Encoding: chunked << 5\r\nhelloo\r\n0\r\n\r\n
        POST /return | Transfer-Encoding: chunked << 5\r\nhelloXX0\r\n\r\n
        POST /return | Transfer-Encoding: chunked << ffffffffffffffffff\r\nhello\r\n0\r\n\r\n
        POST /return | Transfer-Encoding: chunked << 8000000000000000\r\nhello\r\n0\r\n\r\n
        POST /return | Transfer-Encoding: chunked << 5\nhello\n0\n\n
            => 400 closed -- a bare LF in a chunked body is an error since 1.29.4
        POST /small << 12345
        POST /small << 123456
        POST /small | Transfer-Encoding: chunked << 5\r\nhello\r\n0\r\n\r\n
        POST /small | Transfer-Encoding: chunked << 6\r\nhellos\r\n0\r\n\r\n
        POST /none << 123456
        POST /static/a.txt << 123456
        GET /static/a.txt << 123456
        POST /errpage/a.txt << 123456
        POST /404/x << 123456
        GET /static/a.txt << 12345
        GET /static/a.txt | Transfer-Encoding: chunked << 5\r\nhello\r\n0\r\n\r\n && GET /return
        GET /static/a.txt << 123 && GET /return
        HEAD /return << 123 && GET /return
        POST /return HTTP/1.0 << hello
        POST /return | Expect: 100-continue << hello
            => 200 kept -- RFC 9110 10.1.1: no 100 where the body is there already or there is none
        POST /return | Expect: 100-Continue << hello
            => 200 kept -- RFC 9110 10.1.1: no 100 where the body is there already or there is none
        POST /return | Expect: something << hello
        POST /small | Expect: 100-continue << 123456
        POST /return HTTP/1.0 | Expect: 100-continue << hello
        GET /return | Expect: 100-continue
            => 200 kept -- RFC 9110 10.1.1: no 100 where the body is there already or there is none
        """, files={"html/a.txt": "a\n"}),

    Config("limits", r"""
        client_header_buffer_size 256;
        large_client_header_buffers 2 1k;
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location / { return 200 "fine\n"; }
        }
        server {
            listen 127.0.0.1:@PORT1@;
            server_name localhost;
            large_client_header_buffers 4 8k;
            location / { return 200 "$request_length\n"; }
        }
        """, "\n".join([
            "GET /" + "u" * 100, "GET /" + "u" * 300, "GET /" + "u" * 990, "GET /" + "u" * 1005,
            "GET /" + "u" * 1010, "GET /" + "u" * 1024, "GET /" + "u" * 5000,
            "GET /?" + "q" * 3000, "GET / | X: " + "h" * 900, "GET / | X: " + "h" * 1010,
            "GET / | X: " + "h" * 1030, "GET / | X: " + "h" * 5000, "GET / | " + "N" * 1100 + ": x",
            "GET / | X: %s | Y: %s" % ("h" * 900, "i" * 900),
            "GET / | X: %s | Y: %s | Z: %s" % ("h" * 900, "i" * 900, "j" * 900),
            "GET / | " + " | ".join("X-%d: v" % number for number in range(50)),
            "GET / | " + " | ".join("X-%d: %s" % (number, "v" * 40) for number in range(60)),
            "GET /" + "u" * 900 + " | X: " + "h" * 900,
            "GET /" + "u" * 7000 + " | @PORT1", "GET /" + "u" * 9000 + " | @PORT1",
            "GET / | @PORT1 | X: " + "h" * 7000, "GET / | @PORT1 | X: " + "h" * 9000,
            "GET / && GET /" + "u" * 2000, "HEAD /" + "u" * 2000,
            "GET /" + "u" * 500 + " && GET /" + "v" * 500 + " && GET /" + "w" * 500,
        ])),
]
