"""What `make tidy` makes of the output of clang-tidy, and of a build's flags."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tidy  # noqa: E402


def test_a_finding_of_a_header_counts_once():
    one = "src/base/a.h:3:5: error: never read [clang-analyzer-deadcode.DeadStores]\n    int a;\n    ^\n"
    two = "src/base/a.c:9:1: error: null [clang-analyzer-core.NullDereference]\nsrc/base/a.c:4:1: note: taken\n"
    assert tidy.findings("3 warnings generated.\n" + one + two + one) == [one.rstrip("\n"), two.rstrip("\n")]
    assert tidy.findings("") == []


def test_flags_that_gcc_alone_knows_are_left_out(tmp_path):
    (tmp_path / "config.mk").write_text("CC = cc\nCONFIGURED_CFLAGS = -O2 -g -D_FORTIFY_SOURCE=3 -fcf-protection -DX=1\n")
    assert tidy.flags_of(str(tmp_path)) == ["-std=gnu17", "-Isrc", "-I" + str(tmp_path), "-g", "-DX=1"]


def test_cppcheck_fails_for_a_finding_and_not_for_one_with_a_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    wrong = tmp_path / "a.c"
    wrong.write_text("int f(void)\n{\n    int a[2];\n    return a[2];\n}\n")
    assert "a.c:4" in tidy.cppcheck([str(wrong)], str(tmp_path))[0]
    wrong.write_text("int f(void)\n{\n    int a[2];\n    /* cppcheck-suppress arrayIndexOutOfBounds ; a test */\n"
                     "    /* cppcheck-suppress uninitvar ; a test */\n    return a[2];\n}\n")
    assert tidy.cppcheck([str(wrong)], str(tmp_path)) == []
