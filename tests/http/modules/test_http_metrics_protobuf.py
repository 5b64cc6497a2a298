"""metrics as protobuf of Prometheus, with native histograms; and who gets which form."""

import gzip

import pytest

import metric_family
from metric_family import ACCEPT, CONTENT_TYPE, families, find, native
from harness.workers import wait_workers

prometheus = pytest.importorskip("prometheus_client.parser")

SHOW = "location = /metrics { metrics; }"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PAGE = "text/html; charset=utf-8"
SITE = """server { listen 127.0.0.1:@PORT@; server_name a; location / { return 200 x; } location /slow/ { echo_sleep $arg_s; echo x; }
                   location /z { status_zone "z\\"\xff\\\\"; return 404; } }
          server { listen 127.0.0.1:@PORT1@; server_name shows; %s }""" % SHOW


def scrape(server, port="PORT1"):
    answer = server.get("/metrics", "Accept: " + ACCEPT, port=server.port_of(port))
    assert answer.status == 200 and answer.header("Content-Type") == CONTENT_TYPE
    assert answer.header("Vary") == "Accept" and answer.header("Cache-Control") == "no-store"
    return families(answer.body)


def text_samples(server):
    text = server.get("/metrics", port=server.port_of("PORT1")).text
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in prometheus.text_string_to_metric_families(text) for sample in family.samples}


def test_it_says_what_the_text_says(serve):
    server = serve("proxy_cache_path cache keys_zone=c:1m; limit_req_zone $uri zone=l:1m rate=1r/s;" + SITE)
    for path in ("/", "/", "/z", "/slow/?s=0.01"):
        server.get(path)
    scrape(server)                                 # what answers comes into being: its codes have a sample from here on
    text, seen = text_samples(server), metric_family.samples(scrape(server))
    assert set(seen) == set(text)
    requests = {key for key in text if ("server", "a") in key[1] or ("zone", 'z"\\') in key[1]}
    assert len(requests) > 30
    for key in requests | {("portunus_workers", ()), ("portunus_metrics_lost_total", ())}:
        assert seen[key] == text[key], key
    kinds = {name: family.type for name, family in scrape(server).items()}
    assert kinds["portunus_requests_total"] == metric_family.COUNTER and kinds["portunus_build_info"] == metric_family.GAUGE
    assert kinds["portunus_connections"] == metric_family.GAUGE and kinds["portunus_server_request_duration_seconds"] == metric_family.HISTOGRAM


def place(buckets, rank):
    """The ends between which the request of this rank lies."""
    for low, high, count in buckets:
        rank -= count
        if rank <= 0:
            return low, high
    raise AssertionError("fewer requests than that")


def classic(histogram):
    low, former, buckets = 0, 0, []
    for bucket in histogram.bucket:
        buckets.append((low, bucket.upper_bound, bucket.cumulative_count - former))
        low, former = bucket.upper_bound, bucket.cumulative_count
    return buckets


def test_native_and_classic_histograms_are_of_the_same_requests(serve):
    server = serve(SITE)
    slow = [0.002, 0.006, 0.02, 0.03, 0.03, 0.12, 0.3]
    for path in ["/"] * 20 + ["/slow/?s=%g" % seconds for seconds in slow]:
        assert server.get(path).status == 200
    histogram = find(scrape(server), "server_request_duration_seconds", server="a").histogram
    assert histogram.schema == 3 and 0 < histogram.zero_threshold < 0.001
    fine, coarse = native(histogram), classic(histogram)
    assert histogram.sample_count == 27 == sum(count for *_, count in fine) == sum(count for *_, count in coarse)
    assert sum(count for low, _, count in fine if low > 0.27) >= 1 and sum(count for low, _, count in fine if low > 0.0175) >= 5
    for low, high, _ in fine[1:]:
        assert high / low == pytest.approx(2 ** 0.125)
    for rank in range(1, 28):
        low, high = place(fine, rank)
        coarse_low, coarse_high = place(coarse, rank)
        assert low < coarse_high and coarse_low < high, rank
    positive = [bucket for bucket in fine if bucket[0] > 0]
    assert sum(low * count for low, _, count in positive) <= histogram.sample_sum <= sum(high * count for _, high, count in positive)


def test_a_server_that_nobody_has_asked(serve):
    server = serve(SITE)
    found = scrape(server)
    histogram = find(found, "server_request_duration_seconds", server="a").histogram
    assert (histogram.sample_count, histogram.sample_sum, histogram.zero_count) == (0, 0, 0)
    assert not histogram.positive_span and not histogram.positive_delta
    assert histogram.HasField("zero_count") and histogram.HasField("schema") and histogram.zero_threshold > 0     # so it is a native one
    assert [bucket.cumulative_count for bucket in histogram.bucket] == [0] * 12
    assert find(found, "server_sent_bytes_total", server="a").counter.value == 0
    assert "portunus_upstream_requests_total" not in found and "portunus_cache_bytes" not in found


PROMETHEUS = ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=%s,application/openmetrics-text;version=1.0.0;"
              "escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
              "text/plain;version=0.0.4;q=0.2,*/*;q=0.1")


@pytest.mark.one_server
@pytest.mark.parametrize("accept, content_type", [
    (None, TEXT), ("", TEXT), ("*/*", TEXT), ("image/png", TEXT), ("text/*", TEXT), ("text/html;q=0", TEXT),
    (PROMETHEUS % "0.6", CONTENT_TYPE), (PROMETHEUS % "0.45", OPENMETRICS), (PROMETHEUS.replace("version=1.0.0", "version=2.0.0") % "0.1", TEXT),
    ("application/vnd.google.protobuf", CONTENT_TYPE), (ACCEPT + ";q=0", TEXT), (ACCEPT.upper(), CONTENT_TYPE),
    (ACCEPT.replace("delimited", "text"), TEXT), (ACCEPT.replace("MetricFamily", "Other"), TEXT), (ACCEPT + ";q=0.1, text/html;q=0.2", PAGE),
    ("application/openmetrics-text; version=1.0.0", OPENMETRICS), ("application/openmetrics-text", OPENMETRICS), ("application/openmetrics-text;version=0.0.1", TEXT),
    ("text/plain;q=0.5, application/openmetrics-text;q=0.4", TEXT), ("application/*", OPENMETRICS), ("text/html, application/json;q=0.9", PAGE),
    ("text/html;q=0.8, application/json;q=0.9", "application/json"), ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", PAGE)])
def test_the_client_says_which_form_it_wants(serve, accept, content_type):
    server = serve("server { listen 127.0.0.1:@PORT@; %s }" % SHOW)
    headers = [] if accept is None else ["Accept: " + accept]
    got = server.get("/metrics", *headers)
    assert got.status == 200 and got.header("Content-Type") == content_type and got.body
    head = server.get("/metrics", *headers, method="HEAD")
    assert head.status == 200 and head.header("Content-Type") == content_type and head.body == b"" and int(head.header("Content-Length")) > 100


def test_accept_in_several_lines(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; %s }" % SHOW)
    assert server.get("/metrics", "Accept: text/plain;q=0.5", "Accept: " + ACCEPT).header("Content-Type") == CONTENT_TYPE


def test_it_is_compressed_as_others_are(serve):
    server = serve("gzip on; gzip_types application/vnd.google.protobuf; server { listen 127.0.0.1:@PORT@; server_name a; %s }" % SHOW)
    answer = server.get("/metrics", "Accept: " + ACCEPT, "Accept-Encoding: gzip")
    assert answer.header("Content-Encoding") == "gzip" and answer.header("Content-Type") == CONTENT_TYPE
    assert find(families(gzip.decompress(answer.body)), "workers").gauge.value == 1


def test_native_histograms_survive_a_reload(serve):
    server = serve(SITE)
    for path in ("/", "/slow/?s=0.03"):
        server.get(path)
    before = find(scrape(server), "server_request_duration_seconds", server="a").histogram
    old = wait_workers(server, 1)
    server.reload()
    wait_workers(server, 1, without=old)
    server.get("/")
    after = find(scrape(server), "server_request_duration_seconds", server="a").histogram
    assert (before.sample_count, after.sample_count) == (2, 3) and after.positive_span == before.positive_span
    assert sum(count for *_, count in native(after)) == 3


def test_as_many_servers_as_there_may_be(serve):
    """All of them in one answer, each with the histogram of requests that went to it."""
    names = ["s%d" % number for number in range(1023)]
    server = serve("server { listen 127.0.0.1:@PORT@ default_server; server_name a; %s }" % SHOW + "".join(
        "server { listen 127.0.0.1:@PORT@; server_name %s; return 200 x; }" % name for name in names))
    with server.client() as client:
        for name in names[::100]:
            assert client.request("/", host=name).status == 200
    found = scrape(server, "PORT")
    counts = {dict(metric_family.labels_of(metric))["server"]: metric.histogram.sample_count for metric in found["portunus_server_request_duration_seconds"].metric}
    assert len(counts) == 1024 and {name for name, count in counts.items() if count} - {"a"} == set(names[::100])
    assert find(found, "metrics_lost_total").counter.value == 0


def test_one_vary(serve):
    """Accept chooses the form, Accept-Encoding the coding: one field says both."""
    server = serve("gzip on; gzip_min_length 1; gzip_vary on; gzip_types *; server { listen 127.0.0.1:@PORT@; location /metrics { metrics; } }")
    for headers in ((), ("Accept-Encoding: gzip",), ("Accept: text/html", "Accept-Encoding: gzip")):
        answer = server.get("/metrics", *headers)
        assert [value for name, value in answer.headers if name == "Vary"] == ["Accept, Accept-Encoding"]
