"""What auto/reached.py reads of llvm-cov's output."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../auto"))

import reached  # noqa: E402

LCOV = """SF:%s/src/http/v1/heads.c
FN:3,heads_read
FN:9,heads.c:lost
FNDA:2,heads_read
FNDA:0,heads.c:lost
DA:3,2
DA:4,2
DA:5,0
DA:9,0
DA:10,0
BRDA:4,0,0,2
BRDA:4,0,1,-
BRDA:9,0,0,-
end_of_record
SF:/usr/include/string.h
FN:1,other
FNDA:0,other
DA:1,0
end_of_record
SF:src/base/str.c
FN:1,str_is
FNDA:1,str_is
DA:1,1
end_of_record
"""


def run(folder, text, monkeypatch, capsys):
    (folder / "lcov").write_text(text)
    monkeypatch.setattr(sys, "argv", ["reached.py", str(folder / "lcov"), str(folder / "unreached")])
    assert reached.main() == 0
    return capsys.readouterr().out, (folder / "unreached").read_text()


def test_functions_branches_and_shares(tmp_path, monkeypatch, capsys):
    shown, unreached = run(tmp_path, LCOV % os.getcwd(), monkeypatch, capsys)
    assert unreached == ("src/http/v1/heads.c:9: lost, of 2 lines, is never entered\n"
                         "src/http/v1/heads.c:4: a branch is never taken\n")
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[0] == "2 lines src/http/v1/heads.c:9 lost"
    assert lines[3:] == ["src/base 100.0% 1 of 1 lines", "src/http/v1 40.0% 2 of 5 lines", "src 50.0% 3 of 6 lines",
                         "66.7% 2 of 3 functions", "33.3% 1 of 3 branches"]


def test_counts_of_one_function_in_several_programs_are_one(tmp_path, monkeypatch, capsys):
    text = LCOV % os.getcwd()
    _, unreached = run(tmp_path, text + text.replace("FNDA:0,heads.c", "FNDA:7,heads.c").replace("DA:9,0", "DA:9,7"),
                       monkeypatch, capsys)
    assert "lost" not in unreached
