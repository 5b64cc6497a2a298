"""The search for a location, on a running server."""

import pytest


@pytest.mark.parametrize("count", [2, 12])
def test_a_slash_that_is_missing_is_added(serve, count):
    """One of few locations, and one of many, whose names end with a slash and whose requests are passed on."""
    passed = "".join("location /l%d/ { proxy_pass http://127.0.0.1:1; } location = /e%d/ { proxy_pass http://127.0.0.1:1; }"
                     % (number, number) for number in range(count))
    server = serve("server { listen 127.0.0.1:@PORT@; absolute_redirect off; %s location / { return 200 root; }"
                   " location /own/ { return 200 own; } }" % passed)
    for name in ["/l0", "/l%d" % (count - 1), "/e0", "/e%d" % (count - 1)]:
        response = server.get(name + "?a=b")
        assert (response.status, response.header("location")) == (301, name + "/?a=b")
        assert server.get(name + "x").text == "root"
    assert [server.get(path).text for path in ("/own", "/own/", "/l", "/e0/more", "/l%d" % count)] == ["root", "own", "root", "root", "root"]
