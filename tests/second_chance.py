"""A pytest plugin: a test that failed by itself is run once more, and the run's end tells which and why.

Tests are to be deterministic, and a failure that goes away is a fault to be mended: it is printed whole.
But one lost race in 17,000 tests on a borrowed machine says little about a change. What a server did wrong
(a crash, an alert, a sanitizer's report, a leak) fails when it is ended, and gets no second chance; nor
does anything after the third test.
"""

from _pytest.runner import runtestprotocol

MOST = 3
_given = []


def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failed = [report for report in reports if report.failed]
    if [report.when for report in failed] == ["call"] and len(_given) < MOST:
        _given.append(failed[0])
        failed[0].outcome = "rerun"
        item.ihook.pytest_runtest_logreport(report=failed[0])
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_report_teststatus(report):
    if report.outcome == "rerun":
        return "rerun", "R", "RERUN"
    return None


def pytest_terminal_summary(terminalreporter):
    for report in _given:
        terminalreporter.section("failed at first: %s" % report.nodeid)
        report.toterminal(terminalreporter._tw)
