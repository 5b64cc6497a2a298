"""What the libraries of content codings take at the same work, with no server around them."""

import json
import subprocess

import loads
import probes
from servers import BenchError

LIBRARIES = ("-lz", "-lbrotlienc", "-lzstd")


def build(directory):
    """Compiles the program that encodes and does nothing else."""
    return loads.compile_program(directory, "coding_cost", ("coding_cost.c",), LIBRARIES)


def run(bench, row, count, wrapper=()):
    """Encodes the body of a row so many times: what the program says."""
    done = subprocess.run([*wrapper, f"{bench.programs}/coding_cost", *row.library,
                           bench.root + row.uris[0], str(count)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"coding_cost: {done.stderr}")
    return json.loads(done.stdout)


def count_library(bench, row):
    """Instructions for one body, and its bytes."""
    few, many = row.counted
    totals = []
    for count in (few, many):
        name = f"{bench.directory}/callgrind.library"
        said = run(bench, row, count, probes.callgrind(name))
        totals.append(probes.callgrind_summary(name))
    return {"instructions": (totals[1] - totals[0]) / (many - few), "bytes": said["bytes"]}
