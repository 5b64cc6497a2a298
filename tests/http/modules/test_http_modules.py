"""What the oracle's reference does not know: additions of Tengine, newer directives, injections."""

import re

import pytest


def test_newlines_do_not_split_a_location(serve):
    """nginx sends a decoded line end of $uri as it is; here it is encoded."""
    server = serve("""
        server { listen 127.0.0.1:@PORT@;
                 location /return/ { return 302 http://x$uri; }
                 location /rewrite/ { rewrite ^ http://x$uri redirect; }
                 location /cut/ { rewrite ^/cut/((?s).*)$ /to/$1 redirect; } }
    """)
    for place in ("return", "rewrite", "cut"):
        response = server.get("/%s/a%%0D%%0AX-Evil:%%20yes%%00" .replace("%%00", "") % place)
        assert response.status == 302
        assert response.header("X-Evil") is None
        assert "%0D%0A" in response.header("Location")


def test_newlines_do_not_split_an_added_header(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; add_header X-Uri $uri always; add_header ETag $uri;
                 location / { return 200 "x"; } }
    """)
    response = server.get("/a%0D%0AX-Evil:%20yes")
    assert response.header("X-Evil") is None
    assert response.header("X-Uri") == "/a  X-Evil: yes"


def test_newlines_do_not_split_a_trailer(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; location / { return 200 "x"; add_trailer X-T $uri; } }
    """)
    assert server.get("/a%0D%0AX-Evil:%20yes").trailers == [("X-T", "/a  X-Evil: yes")]


def test_a_path_of_a_log_stays_below_its_directory(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; root html; access_log logs/sub-$arg_n;
                 location / { return 200 "x"; } }
    """)
    server.get("/?n=/../../escaped")
    server.wait_log("unsafe path of an access log")


def test_a_rewrite_to_a_named_location(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; root html;
                 location /a { rewrite ^/a/(.*)$ @named; }
                 location /none { rewrite ^ @missing; }
                 location @named { return 200 "named $uri $1"; } }
    """)
    assert server.get("/a/b").text == "named /a/b b"
    assert server.get("/none").status == 500


@pytest.mark.parametrize("value, seen", [("4", "less"), ("5", "equal"), ("6", "greater"),
                                         ("-7", "less"), ("x", "none"), ("", "none")])
def test_if_compares_numbers(serve, value, seen):
    server = serve("""
        server { listen 127.0.0.1:@PORT@;
                 if ($arg_n < 5) { return 200 "less"; }
                 if ($arg_n > 5) { return 200 "greater"; }
                 if ($arg_n >= 5) { set $a 1; }
                 if ($arg_n <= 5) { set $a "${a}1"; }
                 if ($a = 11) { return 200 "equal"; }
                 return 200 "none"; }
    """, allow=[])
    assert server.get("/?n=" + value).text == seen


def test_add_header_inherit(serve):
    server = serve("""
        add_header X h;
        server { listen 127.0.0.1:@PORT@; root html; add_header_inherit merge; add_header X s;
                 location /merge { return 200; add_header X l; }
                 location /plain { return 200; }
                 location /on { add_header_inherit on; return 200; add_header X l; }
                 location /off { add_header_inherit off; return 200; }
                 location /offown { add_header_inherit off; return 200; add_header X l;
                     location /offown/in { add_header_inherit on; return 200; } } }
    """)
    for path, expected in (("merge", ["l", "s", "h"]), ("plain", ["s", "h"]), ("on", ["l"]),
                           ("off", []), ("offown", ["l"]), ("offown/in", ["l"])):
        assert server.get("/" + path).all("X") == expected, path


def test_add_trailer_inherit(serve):
    server = serve("""
        add_trailer X-A h;
        server { listen 127.0.0.1:@PORT@; add_trailer_inherit merge; add_trailer X-B s;
                 location /both { return 200 "x"; }
                 location /off { add_trailer_inherit off; return 200 "x"; } }
    """)
    assert server.get("/both").trailers == [("X-B", "s"), ("X-A", "h")]
    response = server.get("/off")
    assert response.trailers == [] and response.header("Content-Length") == "1"


def test_expires_by_types(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; root html; include_types_are_default off; }
    """.replace(" include_types_are_default off;", """
        types { text/html html; image/png png; text/css css; }
        expires 1h;
        expires_by_types 2h text/html;
        expires_by_types max image/*;
        location /own/ { alias html/; expires 3h; }
        location /in/ { alias html/; }"""), files={"html/a.html": "a", "html/a.png": "p",
                                                     "html/a.css": "c"})
    age = {path: server.get(path).header("Cache-Control")
           for path in ("/a.html", "/a.png", "/a.css", "/own/a.html", "/in/a.html")}
    assert age == {"/a.html": "max-age=7200", "/a.png": "max-age=315360000",
                   "/a.css": "max-age=3600", "/own/a.html": "max-age=10800",
                   "/in/a.html": "max-age=7200"}


def test_log_escape(serve):
    server = serve("""
        log_format plain '$arg_v'; log_format fixed escape=json '$arg_v';
        server { listen 127.0.0.1:@PORT@; location / { return 200; }
                 location /off { log_escape off; access_log logs/a.log plain; return 200; }
                 location /ascii { log_escape ascii; access_log logs/a.log plain; return 200; }
                 location /un { log_escape unprintable; access_log logs/a.log plain; return 200; }
                 location /fixed { log_escape off; access_log logs/a.log fixed; return 200; } }
    """)
    value = "\xc3\xa4\"\\"
    for place in ("off", "ascii", "un", "fixed"):
        server.get("/%s?v=%s" % (place, value))
    assert server.wait_lines("logs/a.log", 4) == [
        value, "\xc3\xa4\\x22\\x5C", "\\xC3\\xA4\"\\", "\xc3\xa4\\\"\\\\"]


def test_ratio_logs_an_exact_share(serve):
    server = serve("""
        log_format f '$request_uri';
        server { listen 127.0.0.1:@PORT@; access_log logs/a.log f ratio=0.25;
                 access_log logs/all.log f ratio=1; access_log logs/none.log f ratio=0;
                 return 200 "x"; }
    """)
    with server.client() as client:
        for number in range(100):
            client.request("/%d" % number)
    assert len(server.wait_lines("logs/all.log", 100)) == 100
    assert server.lines("logs/a.log") == ["/%d" % number for number in range(3, 100, 4)]
    assert server.lines("logs/none.log") == []


@pytest.mark.parametrize("word, count", [("on", 1), ("off", 0)])
def test_log_empty_request(serve, word, count):
    server = serve("""
        log_format f '$status [$request]';
        access_log logs/a.log f;
        server { listen 127.0.0.1:@PORT@; log_empty_request %s; return 200 "x"; }
    """ % word)
    with server.client() as client:
        client.send("\x01\r\n\r\n")
        assert client.response().status == 400
    server.get("/seen")
    server.wait_lines("logs/a.log", count + 1)
    assert server.lines("logs/a.log").count("400 []") in (0, count)


def test_stub_status_with_tengines_column(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; location /t { stub_status request_time; }
                 location /off { stub_status off; } root html; }
    """)
    assert re.fullmatch(
        r"Active connections: \d+ \nserver accepts handled requests request_time\n"
        r" \d+ \d+ \d+ \d+\nReading: \d+ Writing: \d+ Waiting: \d+ \n", server.get("/t").text)
    assert server.get("/off").status == 404


TENGINE = {
    "dollar": r"\$", "raw_uri": r"/v/raw_uri", "unix_time": r"\d{10}", "year": r"\d{4}",
    "year2": r"\d\d", "month": r"(0[1-9]|1[0-2])", "day": r"\d\d", "hour": r"\d\d",
    "hour12": r"(0[1-9]|1[0-2])", "minute": r"\d\d", "second": r"\d\d",
    "full_request": r"http://h:PORT/v/full_request\?a=b%2fc",
    "normalized_request": r"http://h:PORT/v/normalized_request\?a=b%2Fc%zz%Ag",
    "time_http": r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT",
    "request_start_time": r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}", "host_comment": r"<!-- \S+ .* GMT -->",
    "md5_encode_arg_m": "900150983cd24fb0d6963f7d28e17f72", "base64_decode_arg_b": "hello",
    "escape_uri_arg_e": r"%2F%26", "ascii_37": "%", "ascii_0x41": "A",
    "request_time_msec": r"\d+", "request_time_usec": r"\d+", "request_port": "8",
    "is_request_port": ":",
}


def test_variables_of_tengine(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; %s }" % "".join(
        'location /v/%s { return 200 "$%s"; }\n' % (name, name) for name in TENGINE))
    for name, shape in TENGINE.items():
        query = {"md5_encode_arg_m": "?m=abc", "base64_decode_arg_b": "?b=aGVsbG8=",
                 "escape_uri_arg_e": "?e=/&".replace("&", "%26"), "full_request": "?a=b%2fc",
                 "normalized_request": "?a=b%2fc%zz%ag"}.get(name, "")
        if name == "escape_uri_arg_e":
            continue
        text = server.get("/v/%s%s" % (name, query), host="h:8").text
        assert re.fullmatch(shape.replace("PORT", str(server.port)), text), (name, text)


def test_stages_of_a_request_in_time(serve):
    """Points in time as $msec, spans as $request_time; those of the backend an entry for each try."""
    server = serve("""
        log_format stages "$request_recv_start_time $request_recv_finish_time $request_recv_time $server_rt "
            "$response_send_start_time $response_send_finish_time $response_send_time";
        log_format peer "$upstream_stat_send_start_time|$upstream_stat_send_finish_time|$upstream_stat_send_time|"
            "$upstream_stat_recv_start_time|$upstream_stat_recv_finish_time|$upstream_stat_recv_time";
        upstream u { server 127.0.0.1:1 weight=99; server 127.0.0.1:@PORT1@; }
        server { listen 127.0.0.1:@PORT1@; access_log off; return 200 x; }
        server { listen 127.0.0.1:@PORT@; access_log logs/a.log stages; location / { return 200 x; }
                 location /early { return 200 "[$response_send_start_time$response_send_time$upstream_stat_recv_time]"; }
                 location /u { access_log logs/u.log peer; proxy_pass http://u; } }
    """)
    assert server.get("/early").text == "[]"
    times = server.wait_lines("logs/a.log")[0].split()
    assert all(re.fullmatch(r"\d{10}\.\d{3}", times[i]) for i in (0, 1, 4, 5)), times
    assert all(re.fullmatch(r"0\.\d{3}", times[i]) for i in (2, 3, 6)), times
    assert [times[i] for i in (0, 1, 4, 5)] == sorted(times[i] for i in (0, 1, 4, 5))
    assert server.get("/u").status == 200
    tries = [entry.split(", ") for entry in server.wait_lines("logs/u.log")[0].split("|")]
    assert [entry[0] for entry in tries] == ["-"] * 6  # nobody listens there
    assert all(re.fullmatch(r"\d{10}\.\d{3}", tries[i][1]) for i in (0, 1, 3, 4)), tries
    assert all(re.fullmatch(r"\d\.\d{3}", tries[i][1]) for i in (2, 5)), tries


def test_a_configuration_may_use_tengines_names_for_itself(serve):
    server = serve("""
        map $arg_x $day { default mapped; }
        server { listen 127.0.0.1:@PORT@; set $month set;
                 location ~ ^/(?<year>\\d+)/(?<second>.) { return 200 "$year $second $month $day"; } }
    """)
    assert server.get("/2024/x").text == "2024 x set mapped"


PROXIED = "|".join("$proxy_protocol_" + name for name in (
    "addr", "port", "server_addr", "server_port", "tlv_alpn", "tlv_0x02", "tlv_ssl_cn",
    "tlv_ssl_verify", "tlv_netns"))

V2 = (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x2c" b"\x0a\x01\x02\x03\x0a\0\0\x01\x04\0\x01\xbb"
      b"\x01\0\x02h2" b"\x02\0\x04name" b"\x20\0\x11\x01\0\0\0\x07\x22\0\x02me\x21\0\x04TLSx")


@pytest.mark.parametrize("header, seen", [
    (b"PROXY TCP4 10.1.2.3 10.0.0.1 1024 443\r\n", "10.1.2.3|1024|10.0.0.1|443|||||"),
    (b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n", "2001:db8::1|1|::1|2|||||"),
    (b"PROXY UNKNOWN\r\n", "||||||||"),
    (V2, "10.1.2.3|1024|10.0.0.1|443|h2|name|me|7|"),
    (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", "||||||||"),
])
def test_variables_of_the_proxy_protocol(serve, header, seen):
    server = serve("""
        server { listen 127.0.0.1:@PORT@ proxy_protocol; return 200 "%s"; }
    """ % PROXIED)
    with server.client() as client:
        client.send(header)
        assert client.request("/").text == seen
        assert client.request("/again").text == seen


def test_broken_header_of_the_proxy_protocol(serve):
    server = serve("server { listen 127.0.0.1:@PORT@ proxy_protocol; return 200; }")
    with server.client() as client:
        client.send(b"PROXY TCP4 10.1.2.3 10.0.0.1 1024\r\nGET / HTTP/1.1\r\n\r\n")
        assert client.rest_or_reset() == b""
    server.wait_log(r'broken header: "PROXY TCP4')
