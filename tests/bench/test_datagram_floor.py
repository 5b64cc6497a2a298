"""The floor of downloads over QUIC: every way of it sends what it is asked for, and is refused what it cannot do."""

import json
import subprocess

import pytest

import h3


@pytest.fixture(name="file", scope="module")
def fixture_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("floor") / "file"
    file.write_bytes(bytes(1_000_000))
    return str(file)


@pytest.mark.parametrize("way", ["read", "seal", "send", "join", "read,SEAL,send", "read,SEAL,join"])
def test_each_way_is_measured(way, file):
    program, seal = h3.floor_program()
    way = way.replace("SEAL", seal)
    done = subprocess.run([program, way, "1452", "40", "3", file], check=True, stdout=subprocess.PIPE, timeout=60)
    answer = json.loads(done.stdout)
    assert (answer["way"], answer["size"], answer["packets"]) == (way, 1452, 40)
    assert answer["seconds"] > 0 and answer["gigabytes_a_second"] > 0


@pytest.mark.parametrize("words", [["read", "1452", "40", "1"], ["send", "1452", "46", "1"], ["send", "1452", "0", "1"]])
def test_what_it_cannot_do(words):
    done = subprocess.run([h3.floor_program()[0], *words], stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1 and b"usage: datagram_floor" in done.stderr
