"""The plot of docs/scaling-out.md is what the simulation gives now."""

import os
import subprocess

import pytest

from harness import binaries

import plot

PROGRAM = os.path.join(os.path.dirname(binaries.under_test()), "tests", "simulation", "test_simulation")
PLOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "images", "limit-sync.svg")


@pytest.mark.skipif(not os.path.exists(PROGRAM), reason="make unit-programs was not run")
def test_the_plot_is_of_now():
    table = subprocess.run([PROGRAM, "table"], stdout=subprocess.PIPE, check=True, encoding="ascii", timeout=60).stdout
    with open(PLOT, encoding="ascii") as file:
        assert file.read() == plot.draw([words.split() for words in table.splitlines()]), "see tests/simulation/plot.py"
