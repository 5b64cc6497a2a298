"""Circles of calls: files that need each other, so that none can be read or tested by itself."""

import os
import sys

# The walk below goes as deep as the longest chain of calls between files.
sys.setrecursionlimit(20000)

# The most files of one folder that may form a circle, and where more may.
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


def faults(uses):
    """One fault a circle that is too large; `uses` is file -> file -> the names that it needs."""
    graph = {file: set(used) for file, used in uses.items()}
    found = []
    for ring in components(graph):
        folders = sorted({os.path.dirname(file) for file in ring})
        if len(folders) == 1 and (len(ring) <= MOST_FILES or folders[0] in EXEMPT):
            continue
        kind = ("across folders (%s)" % ", ".join(folders) if len(folders) > 1
                else "in one folder, where %d are allowed" % MOST_FILES)
        text = "src/%s:1: a circle of calls, %d files %s: %s" % (
            ring[0], len(ring), kind, " ".join(os.path.basename(file) for file in ring))
        for left, _, file, used in weakest(uses, ring):
            text += "\n    %s needs of %s: %s; without it the largest is of %d" % (
                file, used, ", ".join(sorted(uses[file][used])), left)
        found.append(text)
    return found


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
