"""Tengine's user_agent: variables by the words of User-Agent and the versions behind them."""

import pytest

from harness.server import Server, run_binary

TABLE = """
    user_agent $browser { default none; greedy Firefox; greedy Gecko;
        Chrome 18.0+ new; Chrome 5.0- old; Chrome 17.0~17.9999 between; Chromecast cast;
        Firefox 3.0+ fox; MSIE 6.0 six; Opera any; Safari safari; Trident 1.2.3.4= exact; }
    server { listen 127.0.0.1:@PORT@; return 200 $browser; }
"""


@pytest.fixture(scope="module")
def server():
    with_table = Server(http=TABLE)
    yield with_table.start()
    with_table.close()


@pytest.mark.parametrize("agent, value", [
    ("Chrome/18.0", "new"), ("Chrome 99.1", "new"), ("Chrome/5.0.0", "old"), ("Chrome/5.0.0.1", "none"),
    ("Chrome/17", "between"), ("Chrome/17.9999", "between"), ("Chrome/17.9999.1", "none"),
    ("Chrome", "old"), ("xChrome/20y", "new"), ("chrome/20", "none"),  # no version is 0; words are bytes
    ("Chromecast/18", "cast"),                                         # the longest word counts
    ("MSIE 6.0;", "six"), ("MSIE/6", "six"), ("MSIE 6.1", "none"), ("MSIE 6.0 Opera", "any"), ("Opera MSIE 6.0", "six"), ("Opera MSIE 6.1", "any"),
    ("MSIE 7.0 Opera", "any"), ("Opera", "any"), ("Opera/9.80 (X)", "any"),
    ("Firefox/3 Chrome/20", "new"), ("Firefox/3 x", "fox"), ("Firefox/3 Gecko", "fox"), ("Chrome/13.0 Safari/535.1", "safari"), ("Chrome/20.0 Firefox/1 Safari/1", "safari"), ("Safari/535.1 Chrome/20", "new"),
    ("Chrome/20 Firefox/4", "new"), ("Firefox/4 Chrome/20 Firefox/5", "new"),
    ("Gecko/1 Firefox/6.0", "fox"), ("Trident/1.2.3.4", "exact"), ("Trident/1.2.3.5", "none"),
    ("Trident/1.2.3.4.5", "exact"), ("MSIE 99999999999999999999", "none"), ("Chrome/99999999999", "new"),
    ("Chrome/", "old"), ("Chrome/18.", "new"), ("", "none"),
])
def test_words_and_versions(server, agent, value):
    assert server.get("/", "User-Agent: " + agent).text == value


def test_no_field_is_the_default(server):
    assert server.get("/").text == "none"


@pytest.mark.parametrize("lines, message", [
    ("Chrome 1 a;", '"user_agent" needs a "default"'),
    ("default a; default b;", "duplicate default user_agent parameter"),
    ("default a; Chrome x b;", 'invalid version "x"'), ("default a; Chrome 2~1 b;", 'invalid version "2~1"'),
    ("default a; Chrome 1.2.3.4.5 b;", 'invalid version "1.2.3.4.5"'), ("default a; Chrome 1++ b;", "invalid version"),
    ("default a; Chrome;", "invalid number of the user_agent parameters"),
    ("default a; Chrome 1 b c;", "invalid number of the user_agent parameters"),
])
def test_what_is_refused(tmp_path, lines, message):
    (tmp_path / "nginx.conf").write_text("events {} http { user_agent $u { %s } }" % lines)
    done = run_binary("-t", "-p", str(tmp_path) + "/", "-c", "nginx.conf", "-e", "stderr")
    assert done.returncode == 1 and message in done.stderr
