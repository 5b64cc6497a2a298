"""image_filter: what is made of images, as the reference makes it; what is refused."""

import os
import struct
import threading

import pytest

import images
from harness import Server, binaries, run_binary
from harness.h2 import H2

OURS = os.path.join(os.path.dirname(os.path.abspath(binaries.under_test())), "ngx_http_image_filter_module.so")
THEIRS = "/usr/lib/nginx/modules/ngx_http_image_filter_module.so"
pytestmark = pytest.mark.skipif(not os.path.exists(OURS), reason="image_filter was not built")

FILES = {
    "html/i.jpg": images.JPEG, "html/i.gif": images.GIF, "html/t.gif": images.TRANSPARENT_GIF, "html/i.webp": images.WEBP,
    "html/i.png": images.png(), "html/a.png": images.png(alpha=100), "html/p.png": images.png(palette=True),
    "html/t.png": images.png(palette=True, transparent=True), "html/tall.png": images.png(30, 200), "html/one.png": images.png(1, 1),
    "html/text.txt": "text, and more of it\n", "html/empty.png": b"", "html/cut.jpg": images.JPEG[:300], "html/short.png": images.png()[:20],
    "html/broken.png": images.png()[:60] + b"x" * 50, "html/head.gif": images.GIF[:8],
}

TYPES = "types { image/jpeg jpg; image/png png; image/gif gif; image/webp webp; text/plain txt; }"


def conf(*lines):
    """Locations /0/, /1/ ... with these lines."""
    return TYPES + " server { listen 127.0.0.1:@PORT@; root html; location /empty { return 204; } %s }" % "\n".join(
        "location /%d/ { alias html/; %s }" % pair for pair in enumerate(lines))


@pytest.fixture
def images_at(serve):
    def start(*lines, files=(), main=""):
        return serve(conf(*lines), files=dict(FILES, **dict(files)), main="load_module %s;" % OURS + main)
    return start


# one server of ours and one of the reference, which answer alike

WAYS = [
    "image_filter size;", "image_filter test;", "image_filter resize 60 40;", "image_filter resize 60 -;", "image_filter resize - 20;",
    "image_filter resize 500 500;", "image_filter resize 1 1;", "image_filter crop 60 40;", "image_filter crop 40 60;",
    "image_filter crop 500 20;", "image_filter crop 20 500;", "image_filter crop 500 500;", "image_filter crop - 20;", "image_filter crop 20 -;",
    "image_filter rotate 90;", "image_filter rotate 180;", "image_filter rotate 270;", "image_filter resize 60 40; image_filter rotate 90;",
    "image_filter rotate 90; image_filter crop 60 40;", "image_filter resize $arg_w $arg_h;", "image_filter rotate $arg_r;",
    "image_filter resize 60 40; image_filter_jpeg_quality $arg_q; image_filter_webp_quality $arg_q;",
    "image_filter resize 60 40; image_filter_interlace on; image_filter_sharpen 50;", "image_filter resize 60 40; image_filter_transparency off;",
    "image_filter off;", "image_filter resize 60 40; image_filter_buffer 300;", "image_filter resize 60 40; error_page 415 = /empty;",
    "image_filter resize 60 40; image_filter_sharpen $arg_s; image_filter_jpeg_quality $arg_q;", "image_filter rotate $arg_r; image_filter resize 60 -;",
]

NAMES = ("i.jpg", "i.gif", "i.webp", "i.png", "tall.png", "one.png", "text.txt", "cut.jpg", "short.png", "broken.png", "empty.png", "head.gif")
TARGETS = [("/%d/%s" % (way, name), ()) for way in range(len(WAYS)) for name in NAMES] + \
    [("/19/i.png?" + args, ()) for args in ("w=50&h=50", "w=50&h=-", "w=-&h=10", "w=x&h=1", "w=0&h=1", "w=-1&h=5", "h=5", "w=-&h=-")] + \
    [("/20/i.png?r=" + angle, ()) for angle in ("90", "180", "45", "x", "")] + \
    [("/21/i.%s?q=%s" % (kind, quality), ()) for kind in ("jpg", "webp") for quality in ("1", "100", "50")] + \
    [("/27/i.jpg?" + args, ()) for args in ("q=101&s=10", "q=50&s=101", "q=50&s=x", "q=50", "q=x&s=1", "q=0")] + \
    [("/28/i.png?r=" + angle, ()) for angle in ("90", "45", "x")] + \
    [("/2/i.png", ("Range: bytes=0-9",)), ("/1/i.png", ("Range: bytes=0-9",)), ("/2/i.png", ("If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT",))]

# Where the reference is not followed: (way, name) or (None, name), and the statuses that are given instead.
ALLOWED = {}


def summary(server, target, headers, method="GET"):
    with server.client() as client:
        answer = client.request(target, *headers, method=method)
    kind = answer.header("Content-Type") or ""
    size = None
    if answer.status == 200 and kind.startswith("image/") and method == "GET":
        try:
            size = images.size(answer.body)
        except (AssertionError, IndexError, struct.error):
            size = answer.body
    etag = answer.header("ETag")
    return (answer.status, kind, size, etag[:2] if etag else None, answer.header("Last-Modified"), answer.header("Accept-Ranges"),
            answer.body if "json" in kind else None)


@pytest.fixture(scope="module")
def both():
    if not os.path.exists(THEIRS) or "nginx/" not in binaries.version_text(binaries.reference()):
        pytest.skip("the reference has no image_filter")
    servers = []
    for binary, module in ((binaries.under_test(), OURS), (binaries.reference(), THEIRS)):
        server = Server(conf(*WAYS), files=FILES, main="load_module %s;" % module, binary=binary)
        server.start()
        servers.append(server)
    yield servers
    for server in servers:
        server.close(check=server is servers[0])


@pytest.mark.parametrize("target, headers", TARGETS, ids=[target + " ".join(headers) for target, headers in TARGETS])
def test_as_the_reference(both, target, headers):
    way = int(target.split("/")[1])
    name = target.split("/")[2].split("?")[0]
    ours, theirs = (summary(server, target, headers) for server in both)
    allowed = ALLOWED.get((way, name), ALLOWED.get((None, name)))
    if allowed is not None:
        assert ours[0] in allowed
    else:
        assert ours == theirs, "%s: ours, theirs" % WAYS[way]


@pytest.mark.parametrize("target", ["/0/i.jpg", "/1/i.png", "/2/i.png", "/2/text.txt", "/5/i.png"])
def test_head_as_the_reference(both, target):
    ours, theirs = (summary(server, target, (), "HEAD") for server in both)
    assert ours == theirs
    with both[0].client() as client:
        whole, head = client.request(target), client.request(target, method="HEAD")
        assert head.header("Content-Length") == whole.header("Content-Length")


# pixels

def quarters(data):
    rows = images.pixels(data)
    height, width = len(rows), len(rows[0])
    return [rows[y][x] for y in (height // 4, height * 3 // 4) for x in (width // 4, width * 3 // 4)]


def test_turning_is_counter_clockwise(images_at):
    server = images_at(*["image_filter rotate %s;" % angle for angle in ("90", "180", "270")])
    red, green, blue, yellow = [colour + (255,) for colour in images.COLOURS]
    assert quarters(server.get("/0/i.png").body) == [green, yellow, red, blue]
    assert quarters(server.get("/1/i.png").body) == [yellow, blue, green, red]
    assert quarters(server.get("/2/i.png").body) == [blue, red, yellow, green]


def test_transparency(images_at):
    server = images_at("image_filter resize 60 45;", "image_filter resize 60 45; image_filter_transparency off;")
    assert {pixel[3] for pixel in quarters(server.get("/0/a.png").body)} <= {99, 100, 101}
    assert {pixel[3] for pixel in quarters(server.get("/1/a.png").body)} <= {99, 100, 101}
    assert [pixel[3] for pixel in quarters(server.get("/0/t.png").body)] == [0, 255, 255, 255]
    assert quarters(server.get("/1/t.png").body)[0][3] == 255 and quarters(server.get("/1/t.png").body)[0][0] > 240
    assert b"\x21\xf9\x04" in server.get("/0/t.gif").body and b"\x21\xf9\x04" not in server.get("/1/t.gif").body


def test_colours_of_palettes_are_kept_where_nothing_is_scaled(images_at):
    server = images_at("image_filter crop 60 -;", "image_filter rotate 180;")
    red, green, blue, yellow = [colour + (255,) for colour in images.COLOURS]
    assert quarters(server.get("/0/p.png").body) == [red, green, blue, yellow]
    assert quarters(server.get("/1/p.png").body) == [yellow, blue, green, red]
    assert {pixel[3] for row in images.pixels(server.get("/1/t.png").body) for pixel in row} == {0, 255}
    assert sum(pixel[3] == 0 for row in images.pixels(server.get("/1/t.png").body) for pixel in row) == 60 * 45


def test_what_libgd_could_not_do_is_logged(images_at):
    server = images_at("image_filter resize 60 40;")
    assert server.get("/0/broken.png").status == 415
    server.wait_log("gdImageCreateFromPngPtr.. failed while sending response to client")


def test_crop_offsets(images_at):
    server = images_at(*["image_filter crop 60 90; image_filter_crop_offset %s;" % offset for offset in
                         ("left top", "right bottom", "center center", "0 0", "30 0", "1000 0", "$arg_x 0")])
    red, green = (255, 0, 0, 255), (0, 255, 0, 255)
    assert [quarters(server.get("/%d/i.png" % way).body)[:2] for way in range(6)] == [
        [red, red], [green, green], [red, green], [red, red], [red, green], [green, green]]
    assert quarters(server.get("/6/i.png?x=right").body)[:2] == [green, green]
    assert server.get("/6/i.png?x=nowhere").status == 415


@pytest.mark.parametrize("way, size", [
    ("crop_keepx 60 20", (60, 20)), ("crop_keepx 60 500", (60, 45)), ("crop_keepx 500 20", (120, 20)), ("crop_keepx - 20", (120, 20)),
    ("crop_keepx 60 -", (60, 45)), ("crop_keepy 30 45", (30, 45)), ("crop_keepy 500 45", (60, 45)), ("crop_keepy 30 500", (30, 90)),
    ("crop_keepy - 45", (60, 45)), ("crop_keepy 500 500", (120, 90)), ("crop_keepx 60 20; image_filter rotate 90", (45, 20)),
    ("crop_keepx $arg_w 20", (60, 20)),
])
def test_crops_that_keep_a_side(images_at, way, size):
    data = images_at("image_filter %s;" % way).get("/0/i.png?w=60").body
    assert struct.unpack(">II", data[16:24]) == size


# what else there is

def test_pixels_are_bounded_before_decoding(images_at):
    bomb = images.png()
    bomb = bomb[:16] + struct.pack(">II", 60000, 60000) + bomb[24:]
    server = images_at("image_filter resize 10 10; image_filter_max_pixels 1000;", "image_filter resize 10 10;", "image_filter size;",
                       files={"html/bomb.png": bomb})
    assert server.get("/0/i.png").status == 415 and server.get("/0/one.png").status == 200
    assert server.get("/1/bomb.png").status == 415
    assert b'"width": 60000' in server.get("/2/bomb.png").body
    server.wait_log(r"image filter: too big image of pixels: 3600000000")


def two_faced_jpeg():
    """A small frame, and before it one that only decoders see, which do not take 0 for a marker."""
    parts, at = {}, 2
    while images.JPEG[at + 1] != 0xda:
        end = at + 2 + struct.unpack(">H", images.JPEG[at + 2:at + 4])[0]
        parts.setdefault(images.JPEG[at + 1], []).append(images.JPEG[at:end])
        at = end
    hidden = b"".join(sum(parts.values(), [])) + images.JPEG[at:]
    small = parts[0xc0][0][:5] + struct.pack(">HH", 8, 8) + parts[0xc0][0][9:]
    return b"\xff\xd8\xff\x00" + struct.pack(">H", len(hidden) + 2) + hidden + small + b"\xff\xd9"


def test_pixels_that_only_the_decoder_would_see(images_at):
    gif = images.GIF[:6] + struct.pack("<HH", 8, 8) + images.GIF[10:]
    server = images_at("image_filter rotate 90; image_filter_max_pixels 1000;", files={"html/two.jpg": two_faced_jpeg(), "html/two.gif": gif})
    assert server.get("/0/i.jpg").status == server.get("/0/i.gif").status == 415
    assert server.get("/0/two.jpg").status == server.get("/0/two.gif").status == 415


def progressive_jpeg(side, scans):
    """Grey; each scan is empty, and takes a decoder once over all pixels."""
    return b"".join((
        b"\xff\xd8", b"\xff\xdb\x00\x43\x00" + b"\x01" * 64,
        b"\xff\xc2\x00\x0b\x08" + struct.pack(">HH", side, side) + b"\x01\x01\x11\x00",
        b"\xff\xc4\x00\x14\x00\x01" + b"\0" * 16, b"\xff\xc4\x00\x14\x10\x01" + b"\0" * 15 + b"\xe0",
        b"\xff\xda\x00\x08\x01\x01\x00\x00\x00\x00", b"\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00" * (scans - 1), b"\xff\xd9"))


def test_scans_are_bounded_before_decoding(images_at):
    server = images_at("image_filter resize 10 10;", "image_filter size;",
                       files={"html/ten.jpg": progressive_jpeg(80, 10), "html/many.jpg": progressive_jpeg(80, 20000)})
    assert images.size(server.get("/0/ten.jpg").body) == ("jpeg", 10, 10)
    assert server.get("/0/many.jpg").status == 415
    server.wait_log("image filter: too big image of scans: 20000")
    assert b'"width": 80' in server.get("/1/many.jpg").body


def test_bytes_are_bounded(images_at, serve):
    backend = serve(TYPES + " server { listen 127.0.0.1:@PORT@; location / { root html; } }", files=dict(FILES, **{"html/long": "x" * 100000}))
    server = images_at("image_filter resize 10 10; image_filter_buffer 2k;",
                       "image_filter resize 10 10; image_filter_buffer 10k; proxy_buffering off; proxy_pass http://127.0.0.1:%d/;" % backend.port)
    assert server.get("/0/i.jpg").status == 200
    assert server.get("/1/long").status == 415
    assert images.size(server.get("/1/i.png").body) == ("png", 10, 7)
    assert server.get("/1/i.png").header("Content-Type") == "image/png"


def test_error_pages(images_at):
    server = images_at("image_filter resize 10 10; error_page 415 /text.txt;", "image_filter resize 10 10; error_page 415 = /empty;",
                       "image_filter resize 10 10;")
    assert server.get("/0/text.txt").status == 415 and server.get("/0/text.txt").text.startswith("text")
    assert server.get("/1/text.txt").status == 204
    assert server.get("/2/text.txt").status == 415
    assert server.get("/2/missing").status == 404


def test_a_test_lets_large_images_stream(images_at):
    large = images.png() + os.urandom(3 << 20)
    server = images_at("image_filter test; image_filter_buffer 4m;", "image_filter test;", files={"html/large.png": large})
    assert server.get("/0/large.png").body == large
    assert server.get("/0/text.txt").status == 415
    assert server.get("/1/large.png").status == 415             # image_filter_buffer holds for what has a length, as with nginx
    server.wait_log("image filter: too big response: %d" % len(large))


def test_connections_are_kept(images_at):
    server = images_at("image_filter resize 10 10;", "image_filter size;")
    with server.client() as client:
        for target, status in (("/0/i.png", 200), ("/0/text.txt", 415), ("/1/i.jpg", 200), ("/0/i.gif", 200), ("/1/text.txt", 200)):
            assert client.request(target).status == status
            assert client.request(target, method="HEAD").status == status


def test_http_1_0(images_at):
    server = images_at("image_filter resize 10 10;")
    with server.client() as client:
        client.send(b"GET /0/i.png HTTP/1.0\r\n\r\n")
        assert images.size(client.response().body) == ("png", 10, 7)


def test_http2(serve):
    server = serve(TYPES + " server { listen 127.0.0.1:@PORT@; http2 on; location / { root html; image_filter resize 10 10; } }",
                   files=FILES, main="load_module %s;" % OURS)
    with H2(server.port) as h2:
        assert images.size(h2.get("/i.png").body) == ("png", 10, 7)
        assert h2.get("/text.txt").status == 415
        assert h2.get("/i.png", "HEAD").body == b""


def test_many_at_one_time(images_at):
    server = images_at("image_filter resize 10 10;", main="thread_pool image_filter threads=1 max_queue=2;")
    found = []

    def ask():
        found.append(server.get("/0/i.jpg").status)
    threads = [threading.Thread(target=ask) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) <= {200, 503} and 200 in found
    assert server.get("/0/i.jpg").status == 200


def test_the_cache_keeps_what_came(serve):
    backend = serve(TYPES + " server { listen 127.0.0.1:@PORT@; location / { root html; } }", files=FILES)
    server = serve("proxy_cache_path cache keys_zone=c:1m; " + TYPES + " server { listen 127.0.0.1:@PORT@; proxy_cache c; proxy_cache_valid any 1h;"
                   " add_header X-Cache $upstream_cache_status; location /s/ { image_filter resize 10 10; proxy_cache_key $arg_k;"
                   " proxy_pass http://127.0.0.1:%d/; } location /p/ { proxy_cache_key $arg_k; proxy_pass http://127.0.0.1:%d/; } }"
                   % (backend.port, backend.port), files=FILES, main="load_module %s;" % OURS)
    assert images.size(server.get("/s/i.png?k=1").body) == ("png", 10, 7)
    hit = server.get("/s/i.png?k=1")
    assert images.size(hit.body) == ("png", 10, 7) and hit.header("X-Cache") == "HIT"
    assert server.get("/p/i.png?k=1").body == images.png()


@pytest.mark.parametrize("line, message", [
    ("image_filter;", 'invalid number of arguments in "image_filter" directive'),
    ("image_filter x;", 'invalid parameter "x"'),
    ("image_filter resize 10;", 'invalid parameter "resize"'),
    ("image_filter resize 10 0;", 'invalid parameter "0"'),
    ("image_filter crop x 10;", 'invalid parameter "x"'),
    ("image_filter rotate 45;", 'invalid parameter "45"'),
    ("image_filter_jpeg_quality 0;", 'invalid value "0"'),
    ("image_filter_jpeg_quality 0;", 'invalid value "0"'),
    ("image_filter_webp_quality x;", 'invalid value "x"'),
    ("image_filter_sharpen much;", 'invalid value "much"'),
    ("image_filter_crop_offset left nowhere;", 'invalid parameter "nowhere"'),
    ("image_filter_buffer x;", '"image_filter_buffer" directive invalid value'),
])
def test_bad_configuration(line, message, tmp_path):
    path = tmp_path / "nginx.conf"
    path.write_text("load_module %s; error_log stderr;\npid nginx.pid;\nevents { }\nhttp { server { location / { %s } } }\n" % (OURS, line))
    result = run_binary("-t", "-c", str(path))
    assert result.returncode == 1 and message in result.stderr


def test_a_tunnel_is_left_alone(serve, backend):
    def echo(conn, request):
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
        conn.sendall(conn.recv(100).upper())
    back = backend([echo])
    server = serve("server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:%d; proxy_set_header Upgrade x; "
                   "proxy_set_header Connection upgrade; image_filter resize 10 10; } }" % back.port, main="load_module %s;" % OURS)
    with server.client() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
        client.socket.settimeout(10)
        got = b""
        while not got.endswith(b"\r\n\r\n"):
            got += client.socket.recv(100)
        assert got.startswith(b"HTTP/1.1 101 ")
        client.send(b"hello")
        assert client.socket.recv(100) == b"HELLO"


def test_a_backend_that_breaks_off_before_the_head(serve, backend):
    """The head waits for the image, so that there is still an answer when the rest of it does not come."""
    half = backend([b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 10000\r\n\r\n" + FILES["html/i.png"][:60]])
    server = serve("server { listen 127.0.0.1:@PORT@; location / { image_filter resize 10 10; proxy_pass http://127.0.0.1:%d; error_page 502 /sorry; } location /sorry { return 200 sorry; } "
                   "location /plain { image_filter resize 10 10; proxy_pass http://127.0.0.1:%d; } }" % (half.port, half.port), main="load_module %s;" % OURS)
    assert server.get("/plain").status == 502
    assert (server.get("/").status, server.get("/").text) == (502, "sorry")
