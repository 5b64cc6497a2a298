"""How rates grow with workers: who runs where, and what is made of the figures."""

import json
import os
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rows     # noqa: E402  pylint: disable=wrong-import-position
import scale    # noqa: E402  pylint: disable=wrong-import-position

BINARY = os.environ.get("TEST_NGINX_BINARY",
                        os.path.join(os.path.dirname(__file__), "../../objs/nginx"))
REFERENCE = "/usr/sbin/nginx"
needs_servers = pytest.mark.skipif(
    shutil.which(BINARY) is None or shutil.which(REFERENCE) is None, reason="needs both servers")


def test_every_worker_has_a_cpu_and_clients_have_others():
    """As long as there are any; then workers share, and clients take all."""
    assert scale.share_cpus([0, 1, 2, 3], 2) == ([0, 1], [{2}, {3}], False)
    assert scale.share_cpus([0, 1, 2, 3], 3) == ([0, 1, 2], [{3}], False)
    assert scale.share_cpus([4, 5], 2) == ([4, 5], [{4, 5}], True)
    assert scale.share_cpus([0, 1], 4) == ([0, 1, 0, 1], [{0, 1}], True)
    assert scale.affinity([0, 3]) == "worker_cpu_affinity 1 1000;"


def test_the_ways_are_configurations():
    """Each names the way in the server's own words, and pins the workers."""
    test = scale.TESTS[0]
    texts = [rows.configuration(test.row, "/files", 1001, bool(side), workers=2,
                                main=scale.affinity([0, 1]), events=way.events[side],
                                listen=way.listen if side else "")
             for way in test.ways for side in (0, 1)]
    assert all("worker_cpu_affinity 1 10;" in text for text in texts)
    assert ["reuse_port on;" in text for text in texts] == [False] * 4 + [True, False]
    assert ["reuseport;" in text for text in texts] == [False] * 5 + [True]
    assert ["accept_mutex on;" in text for text in texts] == [True, True] + [False] * 4


def test_several_ab_are_one():
    """Rates add up; nobody's part is larger than another's by more than one."""
    one = {"requests": 5, "rps": 100.0, "latency_us": {"p50": 1.0, "p99": 9.0}}
    two = {"requests": 7, "rps": 50.0, "latency_us": {"p50": 3.0, "p99": 11.0}}
    assert scale.sum_answers([one, two]) == {"requests": 12, "rps": 150.0,
                                             "latency_us": {"p50": 2.0, "p99": 10.0}}
    assert scale.split(1000, 3) == [334, 333, 333]


def costs(rps):
    """The figures of one round."""
    return {"rps": rps, "p50_ms": 1.0, "p99_ms": 2.0, "cpu_us": 30.0, "switches": 0.5}


def test_gains_are_over_the_fewest_workers():
    """Of the same load in the same way; the ratio is the median of the rounds'."""
    line = {"test": "kept", "way": "sharded", "title": "kept, sharded", "is_shared": False}
    other = {**line, "way": "mutex", "title": "kept, mutex", "workers": 2,
             "portunus": [costs(7.0)], "reference": [costs(7.0)]}
    text = scale.table([
        {**line, "workers": 1, "portunus": [costs(1000)] * 3, "reference": [costs(500)] * 3},
        {**line, "workers": 2, "is_shared": True,
         "portunus": [costs(1500), costs(1000), costs(4000)],
         "reference": [costs(1000), costs(1000), costs(1000)]}, other])
    lines = text.splitlines()
    assert lines[2].startswith("| kept, sharded | 1 | 1,000 | 500 | 2.00 | 1.00 | 1.00 | 2.00 |")
    assert lines[3].startswith("| kept, sharded | 2 | 1,500 | 1,000 | 1.50 | 1.50 | 2.00 |")
    assert lines[3].endswith("| 0.50 | 0.50 | 30.0 | 30.0 | yes |")
    assert "| kept, mutex | 2 | 7 | 7 | 1.00 | 1.00 | 1.00 |" in text


@needs_servers
def test_numbers_of_workers_go_by_the_cpus():
    """Unless they are said, or forced."""
    def workers(*words):
        return scale.parse_options(["--binary", BINARY, *words]).workers

    assert max(workers()) <= len(os.sched_getaffinity(0))
    assert workers("--force") == [1, 2, 4, 8, 16]
    assert workers("--workers", "3,5") == [3, 5]
    for words in (("--tests", "nothing"), ("--workers", "0")):
        with pytest.raises(SystemExit):
            workers(*words)


@needs_servers
def test_a_run_from_end_to_end(tmp_path):
    """The chain, and short connections by ab in one of the ways: both sides have figures."""
    name = f"{tmp_path}/out.json"
    done = subprocess.run(
        [sys.executable, scale.__file__, "--tests", "short-100,chain", "--workers", "2", "--rounds",
         "1", "--seconds", "0.1", "--binary", BINARY, "--json", name],
        stdout=subprocess.PIPE, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout
    with open(name, encoding="utf-8") as file:
        results = json.load(file)
    assert [(line["test"], line["way"], line["workers"]) for line in results] == [
        ("short-100", "mutex", 2), ("short-100", "shared", 2), ("short-100", "sharded", 2),
        ("chain", "sharded", 2)]
    assert all(line[side][0]["rps"] > 0 and line[side][0]["cpu_us"] > 0
               for line in results for side in scale.SIDES)
    assert "| kept, FastCGI, then a service, sharded | 2 |" in done.stdout
