"""HTTP/2: h2spec, the conformance tool of others, finds no fault. auto/deps --tests builds it where it can."""

import os
import re
import shutil
import subprocess

import pytest

import certificates
from harness.conformance import server_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILT = os.path.join(ROOT, "objs-tools", "h2spec")
H2SPEC = BUILT if os.access(BUILT, os.X_OK) else shutil.which("h2spec")

# Takes 20 KB of HEADERS for too large a frame, whatever SETTINGS_MAX_FRAME_SIZE was told: it is 1 MB, and nginx's 16.
LARGE = "4.2. Frame Size: 3: Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE"
# In the clear, what does not begin as HTTP/2 does may be a request of HTTP/1.x: it gets 400, as nginx answers it,
# where h2spec wants nothing but the end of the connection.
PREFACE = "3.5. HTTP/2 Connection Preface: 2: Sends invalid connection preface"


def failures(report):
    """The names of the cases that failed, by the list at the report's end: section and case."""
    found, section = set(), None
    for line in report.partition("Failures:")[2].split("\n"):
        heading = re.match(r"\s+(\d[\d.]*\. .*)", line)
        case = re.match(r"\s+\u00d7 (\d+: .*)", line)
        if case:
            found.add("%s: %s" % (section, case.group(1)))
        elif heading:
            section = heading.group(1)
    return found


@pytest.mark.skipif(H2SPEC is None, reason="no h2spec: auto/h2spec builds it, given Go and a network")
@pytest.mark.parametrize("transport, known", [("h2c", {LARGE, PREFACE}), ("h2", {LARGE})])
def test_h2spec(transport, known):
    with server_of(certificates.own("h2")).start() as server:
        words = ["-p", str(server.port)] if transport == "h2c" else ["-p", str(server.port_of("PORT2")), "-t", "-k"]
        done = subprocess.run([H2SPEC, "-h", "127.0.0.1", "-S", "-o", "3", *words], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=300, check=False)
    report = done.stdout.decode("utf-8", "replace")
    count = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", report)
    assert count, report[-2000:]
    total, passed, skipped, failed = map(int, count.groups())
    assert failures(report) == known, report[report.find("Failures:"):]
    assert total >= 146 and skipped == 0 and failed == len(known) and passed == total - failed
