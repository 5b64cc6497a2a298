"""How `make check` runs pytest: files shared among processes, a failed test run once more and named."""

import os
import re
import subprocess
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORDS = ["-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile", "--reruns", "1"]
SERVER = ("import pytest\n\n\n@pytest.fixture(%s)\ndef one():\n    NOTE\n    yield\n    NOTE\n%s\n\n"
          "def test_it(one):\n    pass\n\n\ndef test_again(one):\n    pass\n")


def run(folder, files):
    """Exit status, output and the names that the tests noted."""
    with open(os.path.join(TESTS, "conftest.py"), encoding="utf-8") as conftest:
        (folder / "conftest.py").write_text(conftest.read())
    for name, text in files.items():
        (folder / name).write_text(text.replace("NOTE", "open(%r, 'a').write(__name__ + '\\n')" % str(folder / "ran")))
    # As a shell does that starts it in the background.
    ignoring = ["/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    done = subprocess.run([*ignoring, sys.executable, "-m", "pytest", *WORDS, str(folder)], cwd=folder,
                          env=dict(os.environ, PYTHONPATH=TESTS), capture_output=True, text=True, check=False)
    ran = (folder / "ran").read_text().split() if (folder / "ran").exists() else []
    return done.returncode, done.stdout, sorted(ran)


def closing(output):
    return re.sub(r"[\d.]+s$", "", output.rstrip().rsplit("\n", 1)[-1])


def test_every_file_is_run_once(tmp_path):
    files = {"test_%s.py" % name: "def test_it():\n    NOTE\n\n\ndef test_again():\n    pass\n" for name in "abcde"}
    status, output, ran = run(tmp_path, files)
    assert (status, closing(output)) == (0, "10 passed in ")
    assert ran == ["test_a", "test_b", "test_c", "test_d", "test_e"]


def test_a_server_of_a_file_is_started_once(tmp_path):
    status, output, ran = run(tmp_path, {"test_a.py": SERVER % ("scope='module'", "")})
    assert (status, closing(output)) == (0, "2 passed in ")
    assert ran == ["test_a", "test_a"]


def test_a_test_that_is_run_again_is_named_with_its_failure(tmp_path):
    status, output, _ = run(tmp_path, {
        "test_a.py": "import os\n\n\ndef test_it():\n    if not os.path.exists('once'):\n        os.mkdir('once')\n"
                     "        assert 'what went wrong' == ''\n"})
    assert status == 0 and closing(output) == "1 passed, 1 rerun in "
    assert "run again, after it failed: test_a.py::test_it" in output and "what went wrong" in output


def test_a_failure_that_stays_fails(tmp_path):
    status, output, ran = run(tmp_path, {"test_a.py": "def test_it():\n    NOTE\n    assert False\n"})
    assert (status, closing(output)) == (1, "1 failed, 1 rerun in ") and ran == ["test_a", "test_a"]


def test_what_a_server_did_wrong_is_not_run_again(tmp_path):
    status, output, ran = run(tmp_path, {"test_a.py": SERVER % ("", "    assert False, 'it crashed'\n")})
    assert status == 1 and closing(output) == "2 passed, 2 errors in " and "it crashed" in output
    assert len(ran) == 4


def test_programs_of_the_background_take_sigint(tmp_path):
    status, output, _ = run(tmp_path, {
        "test_a.py": "import signal\nimport subprocess\nimport sys\n\n\ndef test_it():\n"
                     "    code = 'import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)'\n"
                     "    said = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)\n"
                     "    assert said.stdout == 'False\\n'\n"})
    assert status == 0, output
