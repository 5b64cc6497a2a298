"""Several processes of pytest run every file once between them, and say so in one line."""

import os
import re
import subprocess
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(folder, files, *words):
    """Exit status, output and the names that the tests noted."""
    for name, text in files.items():
        (folder / name).write_text(text.replace("NOTE", "open(%r, 'a').write(__name__ + '\\n')" % str(folder / "ran")))
    done = subprocess.run(
        [sys.executable, os.path.join(TESTS, "side_by_side.py"), "2", "-q", "-p", "no:cacheprovider", *words, str(folder)],
        cwd=folder, env=dict(os.environ, PYTHONPATH=TESTS), capture_output=True, text=True, check=False)
    ran = (folder / "ran").read_text().split() if (folder / "ran").exists() else []
    return done.returncode, done.stdout, sorted(ran)


def closing(output):
    return re.sub(r"[\d.]+s$", "", output.rstrip().rsplit("\n", 1)[-1])


def test_every_file_is_run_once(tmp_path):
    files = {"test_%s.py" % name: "def test_it():\n    NOTE\n\n\ndef test_again():\n    pass\n" for name in "abcde"}
    status, output, ran = run(tmp_path, files)
    assert (status, closing(output)) == (0, "10 passed in ")
    assert ran == ["test_a", "test_b", "test_c", "test_d", "test_e"]


def test_a_failure_is_shown_and_counted(tmp_path):
    status, output, ran = run(tmp_path, {
        "test_a.py": "def test_it():\n    NOTE\n    assert 'what went wrong' == ''\n",
        "test_b.py": "import pytest\n\n\ndef test_it():\n    NOTE\n    pytest.skip('no')\n",
        "test_c.py": "def test_it():\n    NOTE\n",
    })
    assert status == 1 and "what went wrong" in output
    assert closing(output) == "1 failed, 1 passed, 1 skipped in "
    assert ran == ["test_a", "test_b", "test_c"]


def test_a_server_of_a_file_is_started_once(tmp_path):
    status, output, ran = run(tmp_path, {
        "test_a.py": "import pytest\n\n\n@pytest.fixture(scope='module')\ndef one():\n    NOTE\n    yield\n    NOTE\n\n\n"
                     "def test_it(one):\n    pass\n\n\ndef test_again(one):\n    pass\n"})
    assert (status, closing(output)) == (0, "2 passed in ")
    assert ran == ["test_a", "test_a"]


def test_one_that_is_run_again_counts(tmp_path):
    status, output, _ = run(tmp_path, {
        "test_a.py": "import os\n\n\ndef test_it():\n    if not os.path.exists('once'):\n        os.mkdir('once')\n"
                     "        assert False\n"}, "-p", "second_chance")
    assert status == 0
    assert closing(output) == "1 passed, 1 rerun in " and "failed at first: test_a.py::test_it" in output


def test_nothing_to_run_and_what_cannot_be_read(tmp_path):
    status, output, _ = run(tmp_path, {"test_a.py": "def helper():\n    pass\n"})
    assert (status, closing(output)) == (5, "no tests ran in ")
    status, output, _ = run(tmp_path, {"test_a.py": "import nothing_of_this_name\n"})
    assert status == 2 and "nothing_of_this_name" in output
