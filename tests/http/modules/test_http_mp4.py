"""mp4: parts of videos, looked at by ffprobe and ffmpeg; videos that are odd or broken."""

import hashlib
import json
import os
import shutil
import struct
import subprocess

import pytest

from harness import binaries
from harness.h2 import H2
from harness.server import Server, run_binary

pytestmark = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg")

CONF = """
    types { video/mp4 mp4; text/plain txt; }
    server {
        listen 127.0.0.1:@PORT@; http2 on; root html;
        location / { mp4; }
        location /key/ { alias html/; mp4; mp4_start_key_frame on; }
        location /small/ { alias html/; mp4; mp4_max_buffer_size 1k; }
        location /read/ { alias html/; mp4; sendfile off; }
        location /direct/ { alias html/; mp4; directio 512; }
        location /aio/ { alias html/; mp4; aio threads; sendfile off; }
        location /error/ { alias html/; mp4; error_page 500 /x.txt; }
    }"""
# The reference is older than some of that.
OLD = CONF.replace("http2 on;", "").replace("aio threads;", "")


def make(path, *args, duration=6):
    subprocess.run(["ffmpeg", "-nostdin", "-loglevel", "error", "-y", "-f", "lavfi", "-i", "testsrc=duration=%d:size=64x48:rate=10" % duration,
                    "-f", "lavfi", "-i", "sine=duration=%d" % duration, "-pix_fmt", "yuv420p", "-g", "10", "-c:v", "h264", "-bf", "0", "-c:a", "aac",
                    *args, str(path)], check=True, timeout=120)


# Places from the beginning of the file, of the moof box; samples in the moov box; indexes before and behind the fragments.
FRAGMENTED = {"fragments.mp4": "+frag_keyframe+empty_moov", "relative.mp4": "+frag_keyframe+empty_moov+default_base_moof",
              "hybrid.mp4": "+frag_keyframe", "segments.mp4": "+frag_keyframe+empty_moov+dash+global_sidx+skip_trailer",
              "each.mp4": "+frag_keyframe+empty_moov+dash", "scanned.mp4": "+frag_keyframe+empty_moov+default_base_moof+skip_trailer",
              "separate.mp4": "+frag_keyframe+empty_moov+separate_moof"}


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    directory = tmp_path_factory.mktemp("videos")
    make(directory / "a.mp4")
    make(directory / "front.mp4", "-movflags", "+faststart")
    for name, flags in FRAGMENTED.items():
        make(directory / name, "-movflags", flags)
    files = {"html/" + name: (directory / name).read_bytes() for name in os.listdir(directory)}
    files.update({"html/large.mp4": with_large_boxes(files["html/a.mp4"]), "html/x.txt": "sorry\n", "html/dir/x": "x"})
    return files


@pytest.fixture(scope="module")
def server(videos):
    with Server(http=CONF, files=videos) as running:
        yield running


@pytest.fixture
def site(serve, videos):
    return serve(CONF, files=videos)


# ---- boxes ----

def boxes(data):
    at = 0
    while at + 8 <= len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        head = 8
        if size == 1:
            size, head = struct.unpack(">Q", data[at + 8:at + 16])[0], 16
        size = size or len(data) - at
        assert head <= size <= len(data) - at
        yield kind.decode("latin-1"), data[at + head:at + size]
        at += size


def box(kind, data, large=False):
    return struct.pack(">I4sQ", 1, kind.encode(), len(data) + 16) + data if large else struct.pack(">I4s", len(data) + 8, kind.encode()) + data


CONTAINERS = {"moov", "trak", "mdia", "minf", "stbl"}


def rewrite(data, change):
    """Each box that is no container goes through change(kind, data), which gives (kind, data), or None for none."""
    out = b""
    for kind, inside in boxes(data):
        if kind in CONTAINERS:
            out += box(kind, rewrite(inside, change))
        else:
            changed = change(kind, inside)
            out += box(*changed) if changed else b""
    return out


def with_large_boxes(video):
    """64-bit sizes and offsets: the moov box in front, a mdat box with a large head, co64."""
    top = dict(boxes(video))
    start = video.index(top["mdat"])

    def build(shift):
        def change(kind, inside):
            if kind != "stco":
                return kind, inside
            offsets = struct.unpack(">%dI" % (len(inside) // 4 - 2), inside[8:])
            return "co64", inside[:8] + struct.pack(">%dQ" % len(offsets), *(offset + shift for offset in offsets))
        return box("moov", rewrite(top["moov"], change), large=True)
    length = len(box("ftyp", top["ftyp"])) + len(build(0)) + 16
    return box("ftyp", top["ftyp"]) + build(length - start) + box("mdat", top["mdat"], large=True)


# ---- looking at videos ----

def probe(data, tmp_path):
    path = tmp_path / "part.mp4"
    path.write_bytes(data)
    done = subprocess.run(["ffprobe", "-v", "error", "-of", "json", "-show_streams", "-count_packets", str(path)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=True)
    assert done.stderr == b"", done.stderr
    return json.loads(done.stdout)["streams"]


def frames(data, tmp_path, *args):
    """Hashes of the pictures, as they are decoded."""
    path = tmp_path / "part.mp4"
    path.write_bytes(data)
    done = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", *args, "-i", str(path), "-map", "0:v", "-f", "framehash", "-"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=True)
    assert done.stderr == b"", done.stderr
    return [line.rsplit(b",", 1)[1].strip() for line in done.stdout.split(b"\n") if line and not line.startswith(b"#")]


@pytest.mark.parametrize("name", ["a.mp4", "front.mp4", "large.mp4"])
@pytest.mark.parametrize("args, seconds", [("start=0", 6), ("start=2", 4), ("start=2.5", 3.5), ("end=2", 2), ("start=1&end=3", 2), ("start=5.9", 0.1),
                                           ("start=1.05&end=1.1", 0.1), ("start=3&end=2", 3), ("start=3&end=3", 3), ("end=99", 6)])
def test_durations(server, tmp_path, name, args, seconds):
    response = server.get("/%s?%s" % (name, args))
    assert response.status == 200 and response.header("Content-Type") == "video/mp4"
    assert [kind for kind, _ in boxes(response.body)] == ["ftyp", "moov", "mdat"]
    streams = probe(response.body, tmp_path)
    assert [stream["codec_type"] for stream in streams] == ["video", "audio"]
    for stream in streams:
        assert abs(float(stream["duration"]) - seconds) < 0.11
    assert abs(int(streams[0]["nb_read_packets"]) - 10 * seconds) <= 1


@pytest.mark.parametrize("name", ["a.mp4", "front.mp4", "large.mp4"])
def test_pictures_are_the_same(server, videos, tmp_path, name):
    whole = frames(videos["html/" + name], tmp_path)
    assert len(whole) == 60
    for start, end in ((0, 6), (1, 3), (2, 6), (4, 5)):
        assert frames(server.get("/%s?start=%d&end=%d" % (name, start, end)).body, tmp_path) == whole[10 * start:10 * end]


def test_key_frame(server, videos, tmp_path):
    whole = frames(videos["html/a.mp4"], tmp_path)
    part = server.get("/key/a.mp4?start=2.5&end=4").body
    assert frames(part, tmp_path) == whole[25:40]
    assert abs(float(probe(part, tmp_path)[0]["duration"]) - 1.5) < 0.01
    assert b"elst" in part and b"elst" not in server.get("/key/a.mp4?start=2&end=4").body.split(b"mdat")[0].split(b"trak")[1]


def test_like_nginx(server, videos, tmp_path):
    """Durations and packets are those of Debian's nginx."""
    with Server(http=OLD, files=videos, binary=binaries.reference(), allow=["zero size buf"]) as reference:
        for args in ("start=0", "start=1", "start=2.3", "start=0.05", "end=3.33", "start=1.5&end=4.5", "start=4&end=2", "start=5.95", "start=2&end=2.05"):
            left, right = (probe(one.get("/a.mp4?" + args).body, tmp_path) for one in (reference, server))
            for theirs, ours in zip(left, right):
                assert abs(float(theirs["duration"]) - float(ours["duration"])) < 0.11, args
                assert abs(int(theirs.get("nb_read_packets", 0)) - int(ours["nb_read_packets"])) <= 1, args


@pytest.mark.parametrize("args", ["", "?", "?start=", "?start=x", "?start=-1", "?end=", "?end=0", "?x=1", "?start=1x"])
def test_whole_videos(server, videos, args):
    assert server.get("/a.mp4" + args).body == videos["html/a.mp4"]


@pytest.mark.parametrize("place", ["/read", "/direct", "/aio", "/key"])
def test_ways_of_reading(server, place):
    for name in ("a.mp4", "large.mp4"):
        assert server.get("%s/%s?start=2&end=4" % (place, name)).body == server.get("/%s?start=2&end=4" % name).body


@pytest.mark.parametrize("name", FRAGMENTED)
def test_fragments(server, videos, tmp_path, name):
    """A second is a fragment, which begins with a key frame; the pictures begin some milliseconds after the sound."""
    whole = frames(videos["html/" + name], tmp_path)
    assert len(whole) == 60
    for start, end in ((0, 6), (1.05, 2.95), (2.5, 6), (2.5, 2.6)):
        response = server.get("/%s?start=%g%s" % (name, start, "&end=%g" % end if end < 6 else ""))
        assert response.status == 200
        first, last = int(start), min(6, -int(-end // 1))
        assert frames(response.body, tmp_path) == whole[10 * first:10 * last], (start, end)
        streams = probe(response.body, tmp_path)
        assert [stream["codec_type"] for stream in streams] == ["video", "audio"]
        for stream in streams:
            assert abs(float(stream["start_time"])) < 0.13, (start, end)
        assert abs(int(streams[1]["nb_read_packets"]) - 44100 / 1024 * (last - first)) < 4
    if "skip_trailer" in FRAGMENTED[name]:
        assert server.get("/%s?start=6.5" % name).status == 500
    else:
        assert server.get("/%s?start=6.5" % name).status in (200, 500)   # an index of key frames does not tell the end


@pytest.mark.parametrize("name", ["fragments.mp4", "segments.mp4", "scanned.mp4"])
def test_fragments_tell_how_long_they_last(server, tmp_path, name):
    streams = probe(server.get("/%s?start=2.05&end=3.95" % name).body, tmp_path)
    assert abs(float(streams[0]["duration"]) - 2) < 0.11


def test_the_same_by_index_and_by_search(server, videos):
    video = videos["html/relative.mp4"]
    server.write("html/noindex.mp4", video[:video.rindex(b"mfra") - 4], mtime=None)
    server.write("html/wrongindex.mp4", video[:video.rindex(b"tfra") + 20] + b"\xff" * 20 + video[video.rindex(b"tfra") + 40:], mtime=None)
    for args in ("start=2&end=4", "start=1.5", "end=3"):
        found = server.get("/noindex.mp4?" + args).body
        parts = [kind for kind, _ in boxes(found)]
        assert parts[:3] == ["ftyp", "moov", "moof"] and set(parts[3:]) <= {"moof", "mdat", "free"}
        for name in ("relative", "wrongindex"):
            other = server.get("/%s.mp4?%s" % (name, args)).body
            assert other[other.index(b"moof"):] == found[found.index(b"moof"):]


@pytest.mark.parametrize("place", ["/read", "/direct", "/aio", "/key"])
def test_ways_of_reading_fragments(server, place):
    with server.client() as client:
        whole = client.request("/fragments.mp4?start=2&end=4").body
        assert client.request(place + "/fragments.mp4?start=2&end=4").body == whole
        assert client.request(place + "/fragments.mp4?start=2&end=4", method="HEAD").header("Content-Length") == str(len(whole))
        part = client.request(place + "/fragments.mp4?start=2&end=4", "Range: bytes=700-40000")
        assert part.status == 206 and part.body == whole[700:40001]


def test_broken_fragments(site, videos):
    for name in ("scanned.mp4", "relative.mp4", "segments.mp4", "fragments.mp4"):
        video = videos["html/" + name]
        broken = [video[:video.index(b"moof") + n] for n in (-4, 0, 4, 20, 60, 200, 5000)]
        for kind in (b"moof", b"traf", b"tfhd", b"tfdt", b"trun", b"mdat", b"sidx", b"mvex", b"trex", b"mfra", b"tfra", b"mfro"):
            at = video.find(kind)
            if at != -1:
                for size in (b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\7", b"\xff\xff\xff\xff"):
                    broken.append(video[:at - 4] + size + video[at:])
                for junk in (b"\xff", b"\0"):
                    broken.append(video[:at + 4] + junk * 24 + video[at + 28:])
        for number, data in enumerate(broken):
            site.write("html/bad.mp4", data, mtime=None)
            for args in ("start=2", "start=1&end=2", "end=0.1"):
                assert site.get("/bad.mp4?" + args).status in (200, 500), (name, number)
    assert site.get("/small/fragments.mp4?start=2").status == 500
    assert site.get("/fragments.mp4?start=2").status == 200


def test_head_ranges_and_keepalive(server):
    with server.client() as client:
        whole = client.request("/a.mp4?start=2").body
        assert client.request("/a.mp4?start=2", method="HEAD").header("Content-Length") == str(len(whole))
        for first, last in ((0, 3), (100, 5000), (len(whole) - 5, len(whole) - 1), (2000, 2800)):
            part = client.request("/a.mp4?start=2", "Range: bytes=%d-%d" % (first, last))
            assert part.status == 206 and part.body == whole[first:last + 1]
        assert client.request("/a.mp4?start=2", "Range: bytes=0-1,5-6").body == whole
        tag = client.request("/a.mp4?start=2").header("ETag")
        assert client.request("/a.mp4?start=2", "If-None-Match: " + tag).status == 304
        assert client.request("/a.mp4?start=3", "If-None-Match: " + tag).status == 200


def test_http2(server):
    with H2(server.port) as client:
        assert client.get("/front.mp4?start=5").body == server.get("/front.mp4?start=5").body


def test_other_requests(server):
    assert server.get("/dir").status == 301
    assert server.get("/dir/").status == 403
    assert server.get("/none.mp4?start=1").status == 404
    assert server.get("/a.mp4?start=1", method="POST").status == 405
    assert server.get("/small/a.mp4").status == 200


def test_limit(site):
    assert site.get("/small/a.mp4?start=1").status == 500
    site.wait_log("the moov box is too large, you may want to increase mp4_max_buffer_size")


def test_start_beyond_the_end(site):
    assert site.get("/a.mp4?start=7").status == 500
    assert site.get("/a.mp4?start=9999999999999").status == 500
    assert site.get("/error/a.mp4?start=7").text == "sorry\n"
    site.wait_log("no samples from there on")


@pytest.mark.parametrize("kind", ["mvhd", "tkhd", "mdhd", "stsd", "stts", "stsc", "stsz", "stco"])
def test_video_without_a_box(site, videos, kind):
    def change(name, inside):
        return None if name == kind else (name, inside)
    site.write("html/bad.mp4", rewrite(videos["html/a.mp4"], change), mtime=None)
    assert site.get("/bad.mp4?start=1").status == 500
    site.wait_log("bad.mp4")


def test_broken_videos(site, videos):
    video = videos["html/a.mp4"]
    moov = video.index(b"moov")
    broken = [video[:n] for n in (0, 1, 7, 8, 20, 40, moov, moov + 4, moov + 50, len(video) - 100, len(video) - 1)]
    for name in (b"stts", b"stsc", b"stsz", b"stco", b"stss", b"mvhd", b"mdhd", b"trak", b"stbl", b"ftyp", b"mdat", b"moov"):
        at = video.index(name)
        for size in (b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\7", b"\xff\xff\xff\xff"):
            broken.append(video[:at - 4] + size + video[at:])
        broken.append(video[:at + 4] + b"\xff" * 40 + video[at + 44:])
    for number, data in enumerate(broken):
        site.write("html/bad%d.mp4" % number, data, mtime=None)
        for args in ("start=1", "start=1&end=2", "end=0.1"):
            assert site.get("/bad%d.mp4?%s" % (number, args)).status in (200, 500)
    assert site.get("/a.mp4?start=1").status == 200


def test_many_small_boxes(site):
    site.write("html/boxes.mp4", box("free", b"") * 200000, mtime=None)
    assert site.get("/boxes.mp4?start=1").status == 500
    site.wait_log("no moov box")


def test_sparse_video_beyond_4_gigabytes(site, videos, tmp_path):
    """A mdat box of 5 GB in front of what is shown: offsets are told with 64 bits."""
    video = videos["html/front.mp4"]
    top = dict(boxes(video))
    head = box("ftyp", top["ftyp"]) + struct.pack(">I4sQ", 1, b"mdat", 5 << 30)

    def change(kind, inside):
        if kind != "stco":
            return kind, inside
        offsets = struct.unpack(">%dI" % (len(inside) // 4 - 2), inside[8:])
        return "co64", inside[:8] + struct.pack(">%dQ" % len(offsets), *(offset + (4 << 30) for offset in offsets))
    path = site.path("html/huge.mp4")
    with open(path, "wb") as out:
        out.write(head)
        out.seek((4 << 30) + video.index(top["mdat"]))
        out.write(top["mdat"])
        out.seek(len(box("ftyp", top["ftyp"])) + (5 << 30))
        out.write(box("moov", rewrite(top["moov"], change)))
    os.chmod(path, 0o644)
    part = site.get("/huge.mp4?start=2&end=4").body
    assert frames(part, tmp_path) == frames(site.get("/front.mp4?start=2&end=4").body, tmp_path)
    os.unlink(path)


def test_client_that_leaves(site):
    for _ in range(3):
        with site.client() as client:
            client.send("GET /a.mp4?start=1 HTTP/1.1\r\nHost: a\r\n\r\n")
            client.recv(10)
    assert hashlib.md5(site.get("/a.mp4?start=1").body).digest() == hashlib.md5(site.get("/a.mp4?start=1").body).digest()


@pytest.mark.parametrize("line, message", [("mp4 on;", "invalid number of arguments"), ("mp4_buffer_size x;", "invalid value"),
                                           ("mp4_start_key_frame maybe;", 'invalid value "maybe"')])
def test_wrong_lines(tmp_path, line, message):
    path = tmp_path / "nginx.conf"
    path.write_text("events {} http { server { location / { %s } } }" % line)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path), "-e", "stderr")
    assert done.returncode == 1 and message in done.stderr


# ---- mp4_limit_rate ----

def lasting(seconds, units=600, size=60000, version=0, mehd=None, back=False):
    """A video of so many bytes that says of itself how long it lasts; nothing of it can be shown."""
    duration = struct.pack(">IIIII", 0, 0, 0, units, seconds * units) if version == 0 else \
        struct.pack(">IQQIQ", 1 << 24, 0, 0, units, seconds * units)
    moov = box("udta", b"x" * 5) + box("mvhd", duration + bytes(80))
    if mehd is not None:
        moov += box("mvex", box("mehd", struct.pack(">II", 0, mehd * units)))
    moov, ftyp = box("moov", moov), box("ftyp", b"isom" + bytes(4))
    rest = box("mdat", bytes(size - len(ftyp) - len(moov) - 8))
    return ftyp + (rest + moov if back else moov + rest)


def test_limit_rate(serve):
    """What it comes to is in $limit_rate; what goes before is all of the longer ones. A file that claims to last for years is not sent for years."""
    files = {"html/a.mp4": lasting(60), "html/b.mp4": lasting(60, version=1, back=True), "html/c.mp4": lasting(0, mehd=60), "html/none.mp4": lasting(0),
             "html/nounits.mp4": lasting(60, units=0), "html/hour.mp4": lasting(3600, size=36000), "html/years.mp4": lasting(1 << 60, units=1, size=1000, version=1), "html/cut.mp4": lasting(60)[:40],
             "html/bad.mp4": b"no boxes", "html/empty.mp4": b""}
    # mvhd in a box that ends early
    files["html/short.mp4"] = box("ftyp", b"isom") + box("moov", box("mvhd", bytes(12))) + box("mdat", b"x" * 50)
    server = serve("""
        log_format line '$uri $limit_rate $body_bytes_sent'; access_log rates.log line;
        server { listen 127.0.0.1:@PORT@; http2 on; root html; mp4_limit_rate on;
            mp4_limit_rate_after 3m; location / { mp4; limit_rate 10; limit_rate_after 1m; }
            location /twice/ { alias html/; mp4; mp4_limit_rate 2.5; }
            location /off/ { alias html/; mp4; mp4_limit_rate off; }
            location /after/ { alias html/; mp4; mp4_limit_rate_after 2h; limit_rate_after 1; }
            location /direct/ { alias html/; mp4; directio 512; }
            location /set/ { alias html/; set $limit_rate 77k; mp4; } }
    """, files=files)
    expected = []
    for path, rate in (("/a.mp4", 1100), ("/b.mp4", 1100), ("/c.mp4", 1100), ("/none.mp4", 10), ("/nounits.mp4", 10), ("/short.mp4", 10),
                       ("/cut.mp4", 10), ("/bad.mp4", 10), ("/empty.mp4", 10), ("/twice/a.mp4", 2500), ("/off/a.mp4", 0),
                       ("/direct/a.mp4", 1100), ("/set/a.mp4", 77 << 10), ("/after/hour.mp4", 1024), ("/after/years.mp4", 1024)):
        response = server.get(path)
        data = files["html/" + path.rpartition("/")[2]]
        assert response.status == 200 and response.body == data, path
        expected.append("%s %d %d" % (path, rate, len(data)))
    assert server.get("/a.mp4?end=100").status == 500  # it has no tracks
    with H2(server.port) as client:
        assert client.get("/after/hour.mp4").body == files["html/hour.mp4"]
    assert server.wait_lines("rates.log", len(expected) + 2)[:len(expected)] == expected


def test_limit_rate_of_a_part(serve, videos):
    server = serve("""log_format line '$limit_rate'; access_log rates.log line;
        server { listen 127.0.0.1:@PORT@; root html; location / { mp4; mp4_limit_rate 2; } }""", files=videos)
    for name in ("a.mp4", "front.mp4", "large.mp4"):
        size = len(videos["html/" + name])
        assert server.get("/%s?start=2" % name).status == 200
        rate = int(server.wait_lines("rates.log")[-1])
        assert 2 * size // 7 < rate <= 2 * size // 6 + 1  # 6 seconds, and the sound's last frame


@pytest.mark.parametrize("value", ["0", "x", "-1", "1.2345", "9999999999999999999"])
def test_limit_rate_values(tmp_path, value):
    (tmp_path / "nginx.conf").write_text("events {} http { mp4_limit_rate %s; }" % value)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr")
    assert 'invalid value "%s"' % value in result.stderr
