"""The benchmark judges and writes what it measured."""

import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import probes   # noqa: E402  pylint: disable=wrong-import-position
import report   # noqa: E402  pylint: disable=wrong-import-position
import rows     # noqa: E402  pylint: disable=wrong-import-position


def result_with(mine, theirs):
    """A result with the given CPU times of two rounds of each server."""
    def rounds(times):
        return [{"rps": 1000.0, "cpu_us": time, "busy": 1.0, "waited": 0.0} for time in times]

    return {"name": "keepalive", "title": "keep-alive",
            "targets": {"cpu": 0.9, "syscalls": 2, "instructions": 3000},
            "load": {"portunus": rounds(mine), "reference": rounds(theirs)},
            "syscalls": {"portunus": {"recvfrom": 1.0, "writev": 1.0, "epoll_wait": 0.5,
                                      "write": 0.03},
                         "reference": {"recvfrom": 1.0, "writev": 1.0, "write": 1.0}},
            "instructions": {"portunus": 3001.0, "reference": 8000.0}}


def test_a_turn_of_the_loop_is_not_charged_to_the_request():
    """epoll_wait, and a log write that many requests share."""
    result = result_with([1, 1], [1, 1])
    assert probes.own_syscalls(result["syscalls"]["portunus"]) == 2.0
    assert probes.own_syscalls(result["syscalls"]["reference"]) == 3.0


def test_targets_are_judged_by_the_median_of_the_ratios():
    """0.8 and 0.9 are 0.85, although the medians alone would give 0.9."""
    result = result_with([8, 18], [10, 20])
    assert report.wanted_and_met(result) == [
        ("CPU ≤ 0.90", True), ("calls ≤ 2", True), ("instructions ≤ 3,000", False)]
    assert report.missed([result, result_with([10, 10], [10, 10])]) == 3
    cells = report.row_cells(result)
    assert cells[6] == "0.85 (0.83–0.88)"
    assert cells[-1] == "no: instructions"


def test_a_row_without_figures_has_dashes():
    """Nothing measured, nothing judged."""
    cells = report.row_cells({"title": "x", "targets": {"cpu": 0.9, "instructions": 1}})
    assert cells == ["x", *["–"] * (len(report.HEADER) - 1)]


def test_the_table_goes_between_the_markers(tmp_path):
    """Everything else of the file stays; a file without markers is refused."""
    name = tmp_path / "page.md"
    name.write_text(f"a\n{report.BEGIN}\nold\n{report.END}\nz\n", encoding="utf-8")
    report.write_between_markers(str(name), "new\n")
    report.write_between_markers(str(name), "newer\n")
    assert name.read_text(encoding="utf-8") \
        == f"a\n{report.BEGIN}\n\nnewer\n\n{report.END}\nz\n"
    name.write_text(report.BEGIN, encoding="utf-8")
    with pytest.raises(ValueError):
        report.write_between_markers(str(name), "new\n")


def test_both_servers_get_the_same_configuration():
    """But for the port, how HTTP/2 is asked for, and what a row says is for one of them only."""
    for row in rows.ROWS:
        mine = rows.configuration(row, "/files", 1001, False, backend="127.0.0.1:9")
        theirs = rows.configuration(row, "/files", 1002, True, backend="127.0.0.1:9")
        for name in row.modules:
            line = f"load_module /usr/lib/nginx/modules/{name}.so;\n"
            assert line in theirs and line not in mine
            theirs = theirs.replace(line, "")
        if row.only != ("", ""):
            assert sum(text.count("{only}") for text in (row.http, row.server)) == 1
            assert row.only[0] in mine and row.only[1] in theirs
        elif row.streams:
            assert theirs.count(" http2;") == 1 and "http2" not in theirs.replace(" http2;", "")
            assert mine.replace("        http2 on;\n", "") \
                == theirs.replace("127.0.0.1:1002", "127.0.0.1:1001").replace(" http2;", ";")
            assert "        http2 on;\n" in mine
        else:
            assert mine == theirs.replace("127.0.0.1:1002", "127.0.0.1:1001")
        assert mine.count("{") == mine.count("}")
        assert "{backend}" not in mine and "{conf}" not in mine and "{root}" not in mine


def test_rows_with_tls_have_a_certificate_and_tls_1_3(tmp_path):
    """Of the kind that the row names, and told to both: the reference would not do TLS 1.3."""
    rows.make_certificates(f"{tmp_path}/tls")
    assert {row.tls for row in rows.ROWS} == {"", "ecdsa", "rsa"}
    for row in rows.ROWS:
        text = rows.configuration(row, "/files", 1001, False, tls_directory=f"{tmp_path}/tls")
        assert ("listen 127.0.0.1:1001 ssl;" in text) == ("ssl_cert" in text) == (row.tls != "")
        if row.tls:
            assert "ssl_protocols TLSv1.2 TLSv1.3;" in text
            name = text.partition("ssl_certificate ")[2].partition(";")[0]
            printed = subprocess.run(["openssl", "x509", "-in", name, "-noout", "-text"],
                                     stdout=subprocess.PIPE, text=True, check=True).stdout
            assert {"ecdsa": "NIST CURVE: P-256", "rsa": "(2048 bit)"}[row.tls] in printed
            assert "-T" in row.options


def test_memory_may_be_judged_by_the_reference():
    """At most so many times what it needs."""
    result = {"title": "x", "targets": {"bytes_ratio": 1.0},
              "bytes": {"what": "each", "portunus": 10.0, "reference": 10.0}}
    assert report.memory_table([result]).endswith(
        "| each | 10 | 10 | 1.00 | bytes ≤ 1.00 of the reference's | yes |")
    result["bytes"]["portunus"] = 10.1
    assert report.missed([result]) == 1


def test_connections_in_time_wait_have_a_table():
    """None may be left by Portunus; how many the reference leaves is only told."""
    result = {"title": "x", "targets": {"timewait": 0},
              "timewait": {"what": "100,000 requests", "portunus": 0, "reference": 14000}}
    assert report.missed([result]) == 0
    assert "| 100,000 requests | 0 | 14,000 | TIME_WAIT ≤ 0 | yes |" \
        in report.time_wait_table([result])
    result["timewait"]["portunus"] = 1
    assert report.missed([result]) == 1
    assert report.time_wait_table([result]).endswith("| no |")


def test_the_routing_row_is_what_it_says():
    """500 servers, 200 regex locations, both asked for near the end."""
    row = next(row for row in rows.ROWS if row.name == "routing")
    text = rows.configuration(row, "/files", 1001, False)
    assert text.count("server {") == 500
    assert text.count("location ~") == 200
    assert text.index(f"server_name {row.host};") > len(text) / 2
