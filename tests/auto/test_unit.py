"""The unit of systemd that is shipped: how much it leaves to the service, as systemd itself counts."""

import os
import shutil
import subprocess

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


def exposure(path, most):
    """What systemd-analyze says, which fails above `most` tenths."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run(["systemd-analyze", "--no-pager", "security", "--offline=true", "--threshold=%d" % most, str(path)],
                          capture_output=True, text=True, check=False)


def test_the_service_is_confined(tmp_path):
    unit = tmp_path / "nginx.service"
    with open(os.path.join(ROOT, "conf/nginx.service"), encoding="utf-8") as source:
        text = source.read().replace("/usr/local/nginx/sbin/nginx", "/bin/true")
    unit.write_text(text)
    done = exposure(unit, 40)
    assert done.returncode == 0, done.stdout + done.stderr
    # As it was, for comparison: the count is of what the lines say.
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    assert exposure(unit, 40).returncode != 0


def test_every_line_is_explained():
    """The manual says of each setting that takes something away who needs it back."""
    with open(os.path.join(ROOT, "docs/operations.md"), encoding="utf-8") as source:
        manual = source.read()
    with open(os.path.join(ROOT, "conf/nginx.service"), encoding="utf-8") as source:
        names = {line.split("=")[0] for line in source.read().split("LimitNOFILE")[1].split("[Install]")[0].splitlines()[1:]
                 if "=" in line and not line.startswith("#")}
    assert len(names) > 15
    assert [name for name in sorted(names) if "`%s" % name not in manual] == []
