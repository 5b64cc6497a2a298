"""Tengine's `processes`: a block that may stand there, and names nothing that there is."""

import pytest

from harness import run_binary


@pytest.mark.parametrize("text,wrong", [
    ("processes { }", None),
    ("processes { process watcher { count 2; respawn off; } }", 'no module has a process "watcher"'),
    ("processes { process; }", 'directive "process" has no opening'),
    ("processes { count 1; }", '"count"'),
    ("processes { } processes { }", '"processes" directive is duplicate'),
    ("process a { }", '"process" directive is not allowed here'),
    ("http { processes { } }", '"processes" directive is not allowed here'),
])
def test_processes(tmp_path, text, wrong):
    (tmp_path / "nginx.conf").write_text("events { } %s" % text)
    (tmp_path / "logs").mkdir()
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf")
    assert result.returncode == (wrong is not None) and (wrong or "") in result.stderr
