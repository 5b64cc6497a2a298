"""HTTP/2: whose bytes leave first (RFC 9218). The connection's window is small, so that streams wait for it."""

import struct

import pytest

from harness import h2
from harness.h2 import DATA, H2, PRIORITY_UPDATE, PROTOCOL_ERROR

BIG = bytes(range(256)) * 1200
CHUNK = 8192


@pytest.fixture(name="site")
def _site(serve):
    def start(server=""):
        return serve("http2 on; server { listen 127.0.0.1:@PORT@; %s location / { root html; } }" % server,
                     files={"html/big": BIG})
    return start


def update(client, stream, text):
    client.send(PRIORITY_UPDATE, 0, 0, struct.pack("!I", stream) + text)


def use_up_window(client):
    """A stream of least urgency takes all that the connection's window lets go, and waits for more."""
    first = client.request("/big", headers=[("priority", "u=7")])
    while sum(client.answers.get(first, h2.Answer()).frames) < 65535:
        client.read()
    return first


def served(client, by):
    """Opens the connection's window by so much; gives the streams in the order of their DATA, a number a chunk."""
    before = {stream: len(answer.frames) for stream, answer in client.answers.items()}
    client.window(by)
    order = []
    while by > 0:
        frame = client.read()
        if frame.kind == DATA:
            by -= len(frame.payload)
            order.append(frame.stream)
    assert client.is_alive()
    assert sum(len(answer.frames) - before.get(stream, 0) for stream, answer in client.answers.items()) == len(order)
    return order


def many(client, *priorities):
    streams = [client.request("/big", headers=[("priority", text)] if text else []) for text in priorities]
    assert client.is_alive()
    return streams


def test_by_urgency(site):
    with H2(site().port, {4: 2 ** 24}) as client:
        first = use_up_window(client)
        late, urgent, usual = many(client, "u=5", "u=0", None)
        assert served(client, CHUNK * 4) == [urgent] * 4
        client.send(h2.RST_STREAM, 0, urgent, struct.pack("!I", h2.CANCEL))
        assert client.is_alive()
        assert served(client, CHUNK * 3) == [usual] * 3
        client.send(h2.RST_STREAM, 0, usual, struct.pack("!I", h2.CANCEL))
        assert client.is_alive()
        assert served(client, CHUNK * 3) == [late] * 3
        client.send(h2.RST_STREAM, 0, late, struct.pack("!I", h2.CANCEL))
        client.window(len(BIG))
        assert client.answer(first).body == BIG


def test_one_after_the_other(site):
    """Streams of one urgency that are not incremental: the second has nothing until the first is whole."""
    with H2(site().port, {4: 2 ** 24}) as client:
        use_up_window(client)
        first, second = many(client, "u=3", "u=3")
        for _ in range(5):
            assert set(served(client, CHUNK * 2)) == {first}
        order = served(client, len(BIG))
        assert set(order[:order.index(second)]) == {first} and client.answers[first].body == BIG
        assert first not in order[order.index(second):]


@pytest.mark.parametrize("text", ["u=3, i", "i=?1", None])
def test_by_turns(site, text):
    """Incremental ones take turns of a frame, and so do those of clients that say nothing."""
    with H2(site().port, {4: 2 ** 24}) as client:
        use_up_window(client)
        streams = many(client, text, text, text)
        order = served(client, CHUNK * 12)
        assert {stream: order.count(stream) for stream in streams} == dict.fromkeys(streams, 4)
        assert all(set(order[at:at + 3]) == set(streams) for at in range(0, 12, 3))


@pytest.mark.parametrize("text, urgency", [
    ("u=1", 1), ("u=8", 3), ("u=-1", 3), ("u=1;x=2", 1), ("x=y, u=1", 1), ("u", 3), ("", 3), ("u=6, u=1", 1),
    ("U=1", 3),
])
def test_header(site, text, urgency):
    with H2(site().port, {4: 2 ** 24}) as client:
        use_up_window(client)
        before, it, behind = many(client, "u=%d" % (urgency - 1), text, "u=%d" % (urgency + 1))
        assert served(client, CHUNK * 2) == [before] * 2
        client.send(h2.RST_STREAM, 0, before, struct.pack("!I", h2.CANCEL))
        assert client.is_alive()
        assert served(client, CHUNK * 2) == [it] * 2
        assert sum(client.answers[behind].frames) == 0


def test_update_of_one_that_waits(site):
    with H2(site().port, {4: 2 ** 24}) as client:
        first = use_up_window(client)
        one, other = many(client, "u=3", "u=4")
        assert served(client, CHUNK) == [one]
        update(client, other, b"u=2")
        assert served(client, CHUNK * 2) == [other] * 2
        update(client, first, b"u=0")
        assert set(served(client, CHUNK * 2)) == {first}
        update(client, first, b"u=7")
        update(client, one, b"u=2, i")
        update(client, other, b"u=2, i")
        assert sorted(served(client, CHUNK * 4)) == [one] * 2 + [other] * 2


def test_update_before_its_stream(site):
    """It is kept, the newest counts, and it weighs more than the header that comes later."""
    with H2(site().port, {4: 2 ** 24}) as client:
        use_up_window(client)
        update(client, 7, b"u=6")
        update(client, 7, b"u=1")
        one, two, early = many(client, "u=3", "u=2", "u=5")
        assert early == 7
        assert served(client, CHUNK * 2) == [early] * 2
        assert one != two


def test_updates_of_streams_that_never_come(site):
    """They are not kept without bound, and hurt nobody."""
    with H2(site().port) as client:
        for stream in range(1001, 2001, 2):
            update(client, stream, b"u=1")
        assert client.get("/big", headers=[("range", "bytes=0-9")]).body == BIG[:10]


@pytest.mark.parametrize("payload", [b"\0\0\0\0u=1", b"\0\0\0\2u=1"])
def test_update_of_no_request(site, payload):
    with H2(site().port) as client:
        client.send(PRIORITY_UPDATE, 0, 0, payload)
        client.expect_goaway(PROTOCOL_ERROR)


def test_update_on_a_stream(site):
    with H2(site().port) as client:
        client.send(PRIORITY_UPDATE, 0, 1, b"\0\0\0\1u=1")
        client.expect_goaway(PROTOCOL_ERROR)


def test_old_priorities_are_told_to_be_off(site):
    with H2(site().port) as client:
        assert client.is_alive() and client.settings[9] == 1


def test_backend_has_its_say(site):
    """Parameters of the response's header take the place of the client's (RFC 9218, 8); the others stay."""
    server = site("location /slow/ { alias html/; add_header Priority 'u=6'; }"
                  "location /fast/ { alias html/; add_header priority 'u=1'; }"
                  "location /turns/ { alias html/; add_header priority i; }")
    with H2(server.port, {4: 2 ** 24}) as client:
        use_up_window(client)
        slow = client.request("/slow/big", headers=[("priority", "u=0")])
        usual = client.request("/big", headers=[("priority", "u=3")])
        fast = client.request("/fast/big", headers=[("priority", "u=5, i")])
        pair = [client.request("/turns/big", headers=[("priority", "u=0")]) for _ in range(2)]
        assert client.is_alive()
        order = served(client, CHUNK * 4)
        assert sorted(order) == [pair[0]] * 2 + [pair[1]] * 2
        for stream in pair:
            client.send(h2.RST_STREAM, 0, stream, struct.pack("!I", h2.CANCEL))
        assert client.is_alive()
        assert served(client, CHUNK * 2) == [fast] * 2
        client.send(h2.RST_STREAM, 0, fast, struct.pack("!I", h2.CANCEL))
        assert client.is_alive()
        assert served(client, CHUNK * 2) == [usual] * 2
        assert client.answers[slow].headers["priority"] == "u=6"


# clients that know RFC 7540's priorities only

def weighted(client, weight, depends_on=0, exclusive=False):
    stream = client.next_stream
    client.next_stream += 2
    client.send(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM | h2.WITH_PRIORITY, stream,
                struct.pack("!IB", depends_on | exclusive << 31, weight - 1) + client.block("/big"))
    return stream


def use_up_weighted(client):
    first = weighted(client, 1)
    while sum(client.answers.get(first, h2.Answer()).frames) < 65535:
        client.read()
    client.send(h2.RST_STREAM, 0, first, struct.pack("!I", h2.CANCEL))


def counts(client, streams, chunks):
    assert client.is_alive()
    order = served(client, CHUNK * chunks)
    return [order.count(stream) for stream in streams], order


def test_weights_are_shares(site):
    with H2(site().port, {4: 2 ** 24}) as client:
        use_up_weighted(client)
        streams = [weighted(client, 256), weighted(client, 64), weighted(client, 64)]
        assert counts(client, streams, 18)[0] == [12, 3, 3]
        client.send(h2.PRIORITY, 0, streams[0], struct.pack("!IB", 0, 63))
        assert counts(client, streams, 9)[0] == [3, 3, 3]


def test_groups_have_weights(site):
    """Firefox's way: streams below identifiers that are no streams."""
    with H2(site().port, {4: 2 ** 24}) as client:
        for group, weight in ((3, 192), (5, 64)):
            client.send(h2.PRIORITY, 0, group, struct.pack("!IB", 0, weight - 1))
        client.next_stream = 13
        use_up_weighted(client)
        streams = [weighted(client, 32, 3), weighted(client, 32, 5)]
        assert counts(client, streams, 12)[0] == [9, 3]


def test_what_depends_comes_behind(site):
    with H2(site().port, {4: 2 ** 24}) as client:
        use_up_weighted(client)
        parent = weighted(client, 16)
        child = weighted(client, 256, parent)
        between = weighted(client, 16, parent, exclusive=True)
        assert counts(client, [parent], 6)[0] == [6]
        client.send(h2.RST_STREAM, 0, parent, struct.pack("!I", h2.CANCEL))
        assert counts(client, [between], 6)[0] == [6]
        client.send(h2.RST_STREAM, 0, between, struct.pack("!I", h2.CANCEL))
        other = weighted(client, 256)
        assert counts(client, [child, other], 6)[0] == [3, 3]
        client.send(h2.PRIORITY, 0, child, struct.pack("!IB", child + 100, 255))  # of nothing that is there
        client.send(h2.PRIORITY, 0, other, struct.pack("!IB", child, 255))
        client.send(h2.PRIORITY, 0, child, struct.pack("!IB", other, 255))        # a circle
        assert client.is_alive()


def test_weights_are_overlooked_where_the_newer_priorities_are_known(site):
    with H2(site().port, {4: 2 ** 24, 9: 1}) as client:
        use_up_window(client)
        assert counts(client, [weighted(client, 256), weighted(client, 1)], 6)[0] == [3, 3]
