"""set_misc, array_var: values that are computed between the lines of the rewrite module."""

import base64
import datetime
import hashlib
import hmac
import re
import time

import pytest

from harness import run_binary


def page(*lines):
    return "location / { %s }" % "\n".join(lines)


def serving(serve, *lines, http="", server=""):
    return serve("%s server { listen 127.0.0.1:@PORT@; %s\n%s }" % (http, server, page(*lines)))


def value(serve, *lines, target="/", shown="$v", **more):
    return serving(serve, *lines, 'return 200 "%s";' % shown, **more).get(target).text


def test_codes_there_and_back(serve):
    server = serving(serve, *["set_encode_%s $%s $arg_t; set_decode_%s $%s_back $%s;" % (code, code, code, code, code)
                              for code in ("base64", "base64url", "base32", "hex")],
                     'return 200 "$base64|$base64url|$base32|$hex|$base64_back|$base64url_back|$base32_back|$hex_back";')
    for text in ("", "a", "ab", "abc", "abcde", "abcdef?~>>", "x" * 100):
        data = text.encode()
        assert server.get("/?t=" + text).text.split("|") == [
            base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode().rstrip("="),
            base64.b32hexencode(data).decode().lower(), data.hex()] + [text] * 4


def test_what_cannot_be_decoded_is_empty(serve):
    server = serving(serve, "set_decode_base64 $a $arg_t; set_decode_base32 $b $arg_t; set_decode_base64url $d $arg_t;",
                     'return 200 "[$a$b$d]";')
    for bad in ("*", "%00", "!!!!", "z,", "%7f"):
        assert server.get("/?t=" + bad).text == "[]"


def test_what_is_no_hex_is_an_error(serve):
    server = serving(serve, "set_decode_hex $v $arg_t;", 'return 200 "[$v]";')
    for bad in ("a", "zz", "%00%00", "61626"):
        assert server.get("/?t=" + bad).status == 500
    assert server.get("/?t=6162").text == "[ab]"


def test_base32_settings(serve):
    server = serve("""set_base32_padding off; server { listen 127.0.0.1:@PORT@;
        location / { set_encode_base32 $v a; return 200 $v; }
        location /padded { set_misc_base32_padding on; set_base32_padding on; set_encode_base32 $v a; return 200 $v; }
        location /upper { set_base32_alphabet ABCDEFGHIJKLMNOPQRSTUVWXYZ234567; set_encode_base32 $v a; return 200 $v; }
        location /if { if ($arg_x) { set_encode_base32 $v a; } return 200 $v; } }""")
    assert [server.get(target).text for target in ("/", "/padded", "/upper", "/if?x=1")] == ["c4", "c4======", "ME", "c4"]


def test_quotes(serve):
    assert value(serve, r"""set $v "a'b\"c\\d";""", "set_quote_sql_str $v;") == r"""'a\'b\"c\\d'"""
    assert value(serve, "set_quote_pgsql_str $v it's;") == r"E'it\'s'"
    assert value(serve, "set_quote_pgsql_str $v '';") == "''"
    assert value(serve, r'set_quote_json_str $v "a\"\n";') == r'"a\"\n"'
    assert value(serve, 'set_quote_json_str $v "";') == "null"
    assert value(serve, 'set_quote_sql_str $v "";') == "''"


def test_uris(serve):
    assert value(serve, 'set_escape_uri $v "a b/c?d=e&f+g~h-._";') == "a%20b%2Fc%3Fd%3De%26f%2Bg~h-._"
    assert value(serve, "set_unescape_uri $v $arg_t;", target="/?t=a%20b+c%2Bd%zz%4") == "a b c+d%zz%4"


def test_hashes(serve):
    text = "some text"
    assert value(serve, 'set_md5 $v "some text";') == hashlib.md5(text.encode()).hexdigest()
    assert value(serve, 'set $v "some text"; set_sha1 $v;') == hashlib.sha1(text.encode()).hexdigest()
    for name, digest in (("sha1", hashlib.sha1), ("sha256", hashlib.sha256)):
        for key in ("k", "k" * 64, "k" * 65, "k" * 200):
            wanted = hmac.new(key.encode(), text.encode(), digest).hexdigest()
            assert value(serve, 'set_hmac_%s $v %s "some text"; set_encode_hex $v;' % (name, key)) == wanted


def test_if_empty(serve):
    server = serving(serve, "set $v $arg_v; set_if_empty $v $arg_w; return 200 $v;")
    assert [server.get("/?" + args).text for args in ("v=a&w=b", "w=b", "")] == ["a", "b", ""]


def test_random(serve):
    server = serving(serve, "set_random $v $arg_a $arg_b; return 200 $v;")
    assert {server.get("/?a=3&b=5").text for _ in range(60)} == {"3", "4", "5"}
    assert {server.get("/?a=5&b=3").text for _ in range(60)} == {"3", "4", "5"}
    assert server.get("/?a=7&b=7").text == "7"
    assert 0 <= int(server.get("/?a=0&b=9223372036854775807").text) <= 2**63 - 1
    for bad in ("a=-1&b=2", "a=&b=2", "a=1", "a=1&b=x", "a=1&b=99999999999999999999"):
        assert server.get("/?" + bad).status == 500
    server.wait_log('set_random: bad "from" argument: "-1"')


def test_secure_random(serve):
    server = serving(serve, "set_secure_random_alphanum $v $arg_n; set_secure_random_lcalpha $w $arg_n; return 200 $v:$w;")
    seen = set()
    for _ in range(20):
        alphanum, lower = server.get("/?n=64").text.split(":")
        assert re.fullmatch("[0-9A-Za-z]{64}", alphanum) and re.fullmatch("[a-z]{64}", lower)
        seen.add(alphanum)
    assert len(seen) == 20
    assert [server.get("/?n=" + bad).status for bad in ("0", "65", "x", "-1", "")] == [500] * 5


def test_rotate(serve):
    server = serving(serve, "set_rotate $v 1 3; return 200 $v;")
    assert "".join(server.get("/").text for _ in range(7)) == "1231231"


def test_rotate_counts_on_from_a_number(serve):
    """A cookie's, say: what is out of the range begins again."""
    server = serving(serve, "set $v $arg_v; set_rotate $v 1 5; return 200 $v;")
    assert [server.get("/?v=%d" % number).text for number in (0, 1, 4, 5, 99)] == ["1", "2", "5", "1", "1"]


def test_times(serve):
    server = serving(serve, "set_local_today $a; set_formatted_gmt_time $b '%s %d'; set_formatted_local_time $c ''; "
                     "set_formatted_gmt_time $d %Z; return 200 '$a|$b|$c|$d';".replace("'%s %d'", "'%Y-%m-%dT%H:%M:%S'"))
    before = time.time()
    today, gmt, empty, zone = server.get("/").text.split("|")
    assert today in [time.strftime("%Y-%m-%d", time.localtime(moment)) for moment in (before, time.time())]
    moment = datetime.datetime.strptime(gmt + "+0000", "%Y-%m-%dT%H:%M:%S%z").timestamp()
    assert abs(moment - before) < 30 and empty == "" and zone in ("GMT", "UTC")


def test_hashed_upstream(serve):
    server = serving(serve, "set_hashed_upstream $v all $arg_k; return 200 $v;", http="upstream_list all one two three;")
    first = {key: server.get("/?k=%s" % key).text for key in "abcdefghijklmnop"}
    assert set(first.values()) == {"one", "two", "three"}
    assert first == {key: server.get("/?k=%s" % key).text for key in first}


def test_hashed_upstream_of_a_list_that_a_variable_names(serve):
    server = serving(serve, "set $list $arg_l; set_hashed_upstream $v $list key; return 200 $v;", http="upstream_list all one; upstream_list more two;")
    assert [server.get("/?l=" + name).text for name in ("all", "more")] == ["one", "two"]
    assert server.get("/?l=none").status == 500
    server.wait_log('set_hashed_upstream: upstream_list "none" not found')


def test_lines_run_in_order_also_at_the_server_and_in_if(serve):
    server = serve("""server { listen 127.0.0.1:@PORT@; set $a x; set_md5 $a; set $b $a; set_sha1 $a;
        if ($arg_i) { set_encode_hex $a in; }
        location / { set $c $a; if ($arg_l) { set_encode_hex $c loc; } add_header X-V "$b $a $c"; return 204; } }""")
    md5 = hashlib.md5(b"x").hexdigest()
    sha1 = hashlib.sha1(md5.encode()).hexdigest()
    assert server.get("/").header("X-V") == " ".join((md5, sha1, sha1))
    assert server.get("/?i=1&l=1").header("X-V") == " ".join((md5, "696e", "6c6f63"))


def test_lines_of_http_name_variables(serve):
    """… and assign nothing: no block inherits them."""
    server = serve("""
        set_random $r 1 1; set_md5 $m text; set_if_empty $e full; set_rotate $o 1 2; set_local_today $d;
        server { listen 127.0.0.1:@PORT@; location / { return 200 "[$r$m$e$o$d]"; } location /own { set_md5 $m; set_random $r 7 7; return 200 "$r"; } }""")
    assert server.get("/").text == "[]" and server.get("/own").text == "7"


def test_arrays(serve):
    server = serving(serve, "array_split , $arg_t to=$a; array_map '[$array_it]' $a to=$b; array_map_op set_md5 $a to=$c; array_join + $a to=$d;",
                     "array_join '' $b; array_join : $c; return 200 '$d|$b|$c|$array_it';")
    assert server.get("/?t=a,b,,").text.split("|") == ["a+b++", "[a][b][][]", ":".join(
        hashlib.md5(text).hexdigest() for text in (b"a", b"b", b"", b"")), ""]
    assert server.get("/?t=").text == "|||"


def test_what_is_no_array(serve):
    server = serving(serve, "set $a $arg_t; array_join , $a; return 200 x;")
    for text in ("", "a", "array:0", "array:99999999999999999999", "array:", "array:-1"):
        assert server.get("/?t=" + text).status == 500
    server.wait_log("array_join: .* is not an array")


def test_an_array_that_is_shown_shows_nothing_of_memory(serve):
    assert value(serve, "array_split , a,b to=$v;") == "array:0"


def test_a_long_list_is_bounded_by_the_memory_of_the_request(serve):
    server = serving(serve, "array_split '' $arg_t to=$a; %s array_join , $a; return 200 $a;" % ("array_map '$array_it$array_it' $a;" * 10))
    assert server.get("/?t=" + "x" * 10).text == ",".join(["x" * 1024] * 10)
    assert server.get("/?t=" + "x" * 7000).status in (200, 500)
    assert server.get("/?t=ab").status == 200


BAD = [
    ("set_md5;", 'invalid number of arguments in "set_md5" directive'),
    ("set_md5 a b;", 'invalid variable name "a"'),
    ("set_random $a 1;", 'invalid number of arguments in "set_random" directive'),
    ("set_md5 $a $nosuch;", 'unknown "nosuch" variable'),
    ("set_hashed_upstream $a none x;", 'set_hashed_upstream: upstream_list "none" not found.'),
    ("set_base32_alphabet abc;", "takes 32 different characters"),
    ("array_split , x;", 'array_split: expecting the "to" argument'),
    ("array_split , x y to=$a;", 'array_split: unexpected argument "y"'),
    ("array_map_op nothing $uri;", 'array_map_op: directive "nothing" not found'),
    ("array_map_op set_random $uri;", 'directive "set_random" does not take one argument'),
]


@pytest.mark.parametrize("line, message", BAD, ids=[line for line, _ in BAD])
def test_bad_lines(tmp_path, line, message):
    (tmp_path / "logs").mkdir()
    path = tmp_path / "nginx.conf"
    path.write_text("events {} http { server { listen 127.0.0.1:8080; location / { %s } } }" % line)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path))
    assert done.returncode == 1 and message in done.stderr
