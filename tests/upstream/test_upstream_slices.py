"""Tengine's slices of keepalive: kept connections by a key of the request."""

import pytest

# The backend says on which connection it was asked.
FRAME = """
    upstream u { server 127.0.0.1:@PORT1@; keepalive %s; }
    server { listen 127.0.0.1:@PORT@;
             location / { proxy_pass http://u; }
             location /other { proxy_pass http://u; } }
    server { listen 127.0.0.1:@PORT1@; return 200 "$connection $connection_requests"; }
"""


def connection(server, target):
    response = server.get(target)
    assert response.status == 200
    return response.text.split()[0]


def test_each_key_has_its_connections(serve):
    server = serve(FRAME % "8 slice_key=$arg_user")
    ann, bob, nobody = (connection(server, "/?user=" + name) for name in ("ann", "bob", ""))
    assert len({ann, bob, nobody}) == 3
    for _ in range(2):
        assert connection(server, "/?user=bob") == bob
        assert connection(server, "/?user=ann") == ann
        assert connection(server, "/") == nobody
        assert connection(server, "/other?user=ann") == ann


def test_keys_of_several_variables(serve):
    server = serve(FRAME % "8 slice_key=$request_method-$arg_user")
    ann = connection(server, "/?user=ann")
    with server.client() as client:
        posted = client.request("/?user=ann", method="POST", body=b"x").text.split()[0]
    assert posted != ann
    assert connection(server, "/?user=ann") == ann


def test_a_variable_turns_it_on(serve):
    server = serve(FRAME % "8 slice_key=$arg_user slice_dyn=$http_x_slice")
    common = connection(server, "/?user=ann")
    assert connection(server, "/?user=bob") == common
    with server.client() as client:
        own = client.request("/?user=ann", "X-Slice: 1").text.split()[0]
        assert own != common
        assert client.request("/?user=ann", "X-Slice: 0").text.split()[0] == common
        assert client.request("/?user=ann", "X-Slice: 1").text.split()[0] == own


@pytest.mark.parametrize("parameters,kept", [("slice_poolsize=2", False), ("", True)])
def test_keys_beyond_the_pool(serve, parameters, kept):
    server = serve(FRAME % ("8 slice_key=$arg_user " + parameters))
    first = connection(server, "/?user=a")
    connection(server, "/?user=b")
    connection(server, "/?user=c")
    assert (connection(server, "/?user=a") == first) == kept


def test_of_a_long_key_its_beginning_counts(serve):
    server = serve(FRAME % "8 slice_key=$arg_user slice_keylen=5")
    kept = connection(server, "/?user=12345")
    assert connection(server, "/?user=123456") == kept
    assert connection(server, "/?user=12345xyz") == kept
    assert connection(server, "/?user=1234") != kept


def test_no_pools_for_keys(serve):
    server = serve(FRAME % "8 slice_key=$arg_user slice_poolsize=0")
    assert connection(server, "/?user=ann") != connection(server, "/?user=ann")
    assert connection(server, "/") == connection(server, "/")
