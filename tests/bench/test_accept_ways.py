"""The program that measures ways of accepting does what it says of each way."""

import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import accept_ways    # noqa: E402  pylint: disable=wrong-import-position


@pytest.fixture(scope="module", name="program")
def fixture_program(tmp_path_factory):
    """The compiled program."""
    return accept_ways.build(str(tmp_path_factory.mktemp("bench")))


def measure(program, way, *options):
    """What it says of a way; skipped where the kernel does not let us load programs."""
    done = subprocess.run([program, *options, way], capture_output=True, text=True, check=False)
    if way == "ebpf" and "Operation not permitted" in done.stderr:
        pytest.skip("eBPF takes CAP_BPF")
    assert (done.returncode, done.stderr) == (0, "")
    return accept_ways.json.loads(done.stdout)


@pytest.mark.parametrize("way", accept_ways.WAYS)
def test_every_way_answers(program, way):
    """No connection is lost, and none is served by a worker that does not watch its socket."""
    result = measure(program, way, "-t", "0.3", "-a", "3")
    assert result["rate"] > 0 and result["failed"] == 0
    assert 0 < result["p50_us"] <= result["p99_us"]
    assert (result["siblings"] > 0) == way.startswith("lend")
    assert (result["renewals"] > 0) == (way == "cbpf")


@pytest.mark.parametrize("way", accept_ways.WAYS)
def test_heavy_requests_are_told_apart(program, way):
    """They are answered, and are none of those that the rate counts."""
    result = measure(program, way, "-t", "0.5", "-r", "10", "-b", "1000", "-c", "0")
    assert result["heavy"] > 0 and result["rate"] == 0 and result["failed"] == 0


def test_stopped_worker_of_the_hash(program):
    """Whoever hashes to it waits until it goes on."""
    result = measure(program, "hash", "-t", "1", "-s", "300")
    assert result["stopped_late"] > 0 and result["stopped_longest_us"] > 30000


def test_registering(program):
    """Each worker of lend-K registers its own sockets and those of K siblings."""
    result = measure(program, "lend-2", "-n", "-w", "4", "-a", "5")
    assert result["register_ms"] > 0 and "rate" in result and result["rate"] == 0


def test_connections_that_nobody_takes(program):
    """They are made, and the time of one is told."""
    assert measure(program, "lend", "-p", "50")["park_ns"] > 0


def test_table_has_medians():
    """One row for each case, and a dash where a way could not run."""
    text = accept_ways.table(accept_ways.PARKED, ["hash", "ebpf"],
                             [[{"park_ns": 1, "others": 0.5}, {"park_ns": 9, "others": 0}, {"park_ns": 5, "others": 1}],
                              []])
    assert text.splitlines()[2:] == ["| hash | 5 | 0.50 |", "| ebpf | - | - |"]


def test_unknown_way(program):
    """The usage, and an exit status that says so."""
    done = subprocess.run([program, "guess"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "accept_ways [options]" in done.stderr
