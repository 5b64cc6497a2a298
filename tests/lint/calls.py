"""Calls: what an object needs from another must lie on its own floor or below, as includes do."""

import os
import subprocess

import floors


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


def faults(build, sources):
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
    if not objects:
        return missing

    groups = floors.module_groups()
    defined, needed = symbols(sorted(objects))
    found = []
    for file, names in sorted(needed.items()):
        user = objects[file]
        for name in sorted(names):
            used = objects.get(defined.get(name))
            if used is None or used == user:
                continue
            reason = floors.may_use(user, used, groups)
            if reason:
                found.append("src/%s:1: uses %s of src/%s: %s" % (user, name, used, reason))
    return missing + found
