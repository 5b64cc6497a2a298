"""Circles of calls: files that need each other, so that none can be read or tested by itself."""

import os
import sys

# The walk below goes as deep as the longest chain of calls between files.
sys.setrecursionlimit(20000)

# Files of one folder that form a circle above which lint prints a note, and folders where it does not.
MOST_FILES = 6
EXEMPT = ("fiber", "event")


def components(graph):
    """Tarjan's strongly connected components of {node: set of nodes}, those of one node left out."""
    order, low, held, stack, found = {}, {}, set(), [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        held.add(node)
        for used in sorted(graph.get(node, ())):
            if used not in order:
                visit(used)
                low[node] = min(low[node], low[used])
            elif used in held:
                low[node] = min(low[node], order[used])
        if low[node] == order[node]:
            ring = stack[stack.index(node):]
            del stack[stack.index(node):]
            held.difference_update(ring)
            if len(ring) > 1:
                found.append(sorted(ring))

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return sorted(found)


def weakest(uses, ring, most=8):
    """The edges inside a ring whose removal leaves the smallest circle: what to untie first."""
    inside = {file: {used for used in uses.get(file, {}) if used in ring} for file in ring}
    tried = []
    for file in ring:
        for used in sorted(inside[file]):
            less = dict(inside)
            less[file] = inside[file] - {used}
            left = max([len(part) for part in components(less)] or [0])
            tried.append((left, len(uses[file][used]), file, used))
    tried.sort()
    return [edge for edge in tried if edge[0] < len(ring)][:most]


def described(uses, ring, kind):
    text = "src/%s:1: a circle of calls, %d files %s: %s" % (
        ring[0], len(ring), kind, " ".join(os.path.basename(file) for file in ring))
    for left, _, file, used in weakest(uses, ring):
        text += "\n    %s needs of %s: %s; without it the largest is of %d" % (
            file, used, ", ".join(sorted(uses[file][used])), left)
    return text


def rings(uses):
    """(files, their folders) of each circle; `uses` is file -> file -> the names that it needs."""
    for ring in components({file: set(used) for file, used in uses.items()}):
        yield ring, sorted({os.path.dirname(file) for file in ring})


def across(uses):
    """One error for each circle of files of several folders."""
    return [described(uses, ring, "across folders (%s)" % ", ".join(folders))
            for ring, folders in rings(uses) if len(folders) > 1]


def large(uses):
    """One note for each circle of more than MOST_FILES files of a folder."""
    return [described(uses, ring, "in one folder, where %d are easy to follow" % MOST_FILES)
            for ring, folders in rings(uses)
            if len(folders) == 1 and len(ring) > MOST_FILES and folders[0] not in EXEMPT]


def listing(uses, place):
    """Every edge inside the circles that a path below src/ begins with `place`: lint.py --circles BUILD [PLACE]."""
    graph = {file: set(used) for file, used in uses.items()}
    lines = []
    for ring in components(graph):
        if not any(file.startswith(place) for file in ring):
            continue
        lines.append("circle of %d: %s" % (len(ring), " ".join(ring)))
        for file in ring:
            for used in sorted(uses[file]):
                if used in ring:
                    lines.append("    %s > %s: %s" % (file, used, " ".join(sorted(uses[file][used]))))
    return lines
