"""Includes: from src/ on, never up a layer, never in a circle."""

import os
import re

import layers

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
GENERATED = ("config.h",)
# Macros of config.h that decide what is compiled; WITH_DEBUG comes from the command line.
CHOICE = re.compile(r"^\s*#\s*(?:el)?if.*\b((?:HAVE|WITH)_(?!DEBUG\b)[A-Z0-9_]+)")


def included_by(path):
    """(line number, included name) of each include with quotes."""
    with open(path, encoding="utf-8") as text:
        for number, line in enumerate(text, 1):
            match = INCLUDE.match(line)
            if match and match.group(1) not in GENERATED:
                yield number, match.group(1)


def blind_choices(path):
    """A macro that is asked for without config.h is quietly never there."""
    with open(path, encoding="utf-8") as text:
        lines = text.read().split("\n")
    if any(line.startswith('#include "config.h"') for line in lines):
        return []
    asked = [(number, CHOICE.match(line)) for number, line in enumerate(lines, 1)]
    return ['%s:%d: asks for %s without "config.h"' % (path, number, match.group(1))
            for number, match in asked if match]


def errors(sources):
    found = [fault for path in sources for fault in blind_choices(path)]
    groups = layers.module_groups()
    graph = {}
    for path in sources:
        user = path[len("src/"):]
        graph[user] = []
        for number, used in included_by(path):
            place = "%s:%d: " % (path, number)
            if not os.path.isfile(os.path.join("src", used)):
                found.append(place + 'includes are written from src/ on: "%s"' % used)
                continue
            graph[user].append(used)
            reason = layers.may_use(user, used, groups)
            if reason:
                found.append(place + 'include of "%s": %s' % (used, reason))
                continue
            package = layers.package_of(used)
            if package in layers.INTERFACES and package != layers.package_of(user):
                if used not in layers.INTERFACES[package]:
                    found.append(place + '"%s" is private to src/%s' % (used, package))
    return found + circles(graph)


def circles(graph):
    """One error for each circle that a walk along the includes comes upon."""
    found = []
    done = set()

    def walk(node, trail):
        if node in trail:
            ring = trail[trail.index(node):] + [node]
            found.append("src/%s:1: includes go in a circle: %s" % (node, " > ".join(ring)))
            return
        if node in done:
            return
        for used in graph.get(node, ()):
            walk(used, trail + [node])
        done.add(node)

    for node in sorted(graph):
        walk(node, [])
    return found
