"""Builds of the program with one module more, for the examples."""

import os
import re
import shlex
import shutil
import subprocess

from harness import binaries

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


def run(*command):
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def arguments_of_build():
    """What the binary under test was configured with, its build directory left out."""
    line = re.search(r"^configure arguments:(.*)$", binaries.version_text(binaries.under_test()),
                     re.M).group(1)
    return [word for word in shlex.split(line) if not word.startswith("--builddir=")]


def configure(directory, argument):
    """Configures with one more argument, on a copy of the objects that are there."""
    theirs = os.path.dirname(binaries.under_test())
    shutil.copytree(theirs, directory, symlinks=True, ignore=shutil.ignore_patterns(
        "tests", "bench", "serve", "nginx", "*.a", "*.so"))
    # What knows the arguments of configure is compiled anew.
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".d") and "config.h" in open(path, encoding="utf-8").read():
                if os.path.exists(path[:-2] + ".o"):
                    os.unlink(path[:-2] + ".o")
    run("./configure", "--builddir=%s" % directory, argument, *arguments_of_build())
    return directory


def loadable(directory, folder, name):
    """The loadable object of a module whose sources are in a folder."""
    objs = configure(directory, "--add-dynamic-module=%s" % folder)
    run("make", "BUILD=%s" % objs, "%s/%s.so" % (objs, name))
    return "%s/%s.so" % (objs, name)
