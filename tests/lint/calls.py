"""Calls: what an object needs from another must lie on its own layer or below, as includes do."""

import os
import subprocess

import circles
import layers


def symbols(objects):
    """Two maps by nm: symbol -> object that defines it, object -> symbols that it needs."""
    defined, needed = {}, {}
    # One process for all; -A puts the file before each line, -g leaves local symbols out.
    output = subprocess.run(["nm", "-A", "-g", "-P"] + objects, check=True,
                            capture_output=True, text=True).stdout
    for line in output.splitlines():
        file, _, rest = line.partition(": ")
        words = rest.split()
        if len(words) < 2:
            continue
        if words[1] in "Uvw":
            needed.setdefault(file, set()).add(words[0])
        else:
            defined[words[0]] = file
    return defined, needed


def objects_of(build, sources):
    """The object of each C source as {object: path below src/}, and one error for each that has none."""
    objects, missing = {}, []
    for path in sources:
        if not path.endswith(".c"):
            continue
        plain = os.path.join(build, path[len("src/"):-len(".c")])
        for candidate in (plain + ".o", plain + ".pic.o"):
            if os.path.isfile(candidate):
                objects[candidate] = path[len("src/"):]
                break
        else:
            missing.append("%s:1: has no object in %s: is it missing in auto/modules?" % (path, build))
    return objects, missing


def uses_of(objects):
    """By nm, functions and data alike: file -> file that it needs -> the names that it needs of it."""
    uses = {}
    if not objects:
        return uses
    defined, needed = symbols(sorted(objects))
    for object_file, names in needed.items():
        user = objects[object_file]
        for name in names:
            used = objects.get(defined.get(name))
            if used is not None and used != user:
                uses.setdefault(user, {}).setdefault(used, set()).add(name)
    return uses


def look(build, sources):
    """What uses_of gives, and one error for each use of a higher layer and each circle across folders."""
    objects, found = objects_of(build, sources)
    groups = layers.module_groups()
    uses = uses_of(objects)
    for user in sorted(uses):
        for used in sorted(uses[user]):
            reason = layers.may_use(user, used, groups)
            if reason:
                found += ["src/%s:1: uses %s of src/%s: %s" % (user, name, used, reason)
                          for name in sorted(uses[user][used])]
    return uses, found + circles.across(uses)
