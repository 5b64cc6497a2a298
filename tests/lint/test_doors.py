"""The count of doors, on traces that are written by hand."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import doors  # noqa: E402

LOOP, FIBER = 0x7ffff000, 0x10000000
IN, OUT = doors.FUNCTION_ENTERED, doors.FUNCTION_LEFT


def depths(events, first=0):
    return {function: sorted(record.depths)
            for function, record in doors.entered_between(events, first).items()}


def test_depth_is_counted_from_the_turn_of_the_loop():
    events = [(IN, "main", LOOP), (IN, "turn", LOOP - 100), (doors.WAIT_ENTERED, 0, LOOP - 200),
              (doors.WAIT_LEFT, 0, LOOP - 200), (OUT, "turn", LOOP - 100), (IN, "turn", LOOP - 100),
              (IN, "read", LOOP - 200), (OUT, "read", LOOP - 200), (IN, "write", LOOP - 200)]
    assert depths(events, 3) == {"turn": [1], "read": [2], "write": [2]}


def test_functions_that_the_compiler_folded_share_a_frame():
    events = [(IN, "f", LOOP), (IN, "g", LOOP), (OUT, "g", LOOP), (IN, "h", LOOP)]
    assert depths(events) == {"f": [1], "g": [2], "h": [2]}


def test_a_fiber_stands_on_the_loop_that_runs_it():
    events = [(IN, "turn", LOOP), (IN, "start", LOOP - 100), (IN, "fiber", FIBER),
              (IN, "wait", FIBER - 100),                          # it waits
              (OUT, "start", LOOP - 100), (IN, "resume", LOOP - 100),
              (IN, "deep", LOOP - 200), (OUT, "wait", FIBER - 100), (IN, "answer", FIBER - 100)]
    assert depths(events) == {"turn": [1], "start": [2], "fiber": [3], "wait": [4], "resume": [2],
                              "deep": [3], "answer": [5]}


def test_a_fiber_that_never_returned_leaves_no_frames():
    events = [(IN, "turn", LOOP), (IN, "fiber", FIBER), (IN, "end", FIBER - 100),
              (IN, "turn2", LOOP - 100), (IN, "fiber2", FIBER + 16), (IN, "answer", FIBER - 50)]
    assert depths(events)["fiber2"] == [3] and depths(events)["answer"] == [4]


def test_counts_and_listing():
    names = {1: ("a.c", "turn"), 2: ("b.c", "read"), 3: ("b.c", "put")}
    entered = doors.entered_between([(IN, 1, LOOP), (IN, 2, LOOP - 100), (IN, 3, LOOP - 200),
                                     (OUT, 3, LOOP - 200), (IN, 3, LOOP - 200)], 0)
    assert doors.counts(entered, names) == (3, 2, 3)
    assert doors.listing(entered, names)[1:] == [
        "    1       turn                               1 of -", "src/b.c: 2",
        "    2       read                               1 of turn",
        "    3       put                                2 of read"]
