"""The two programs: the one under test and the reference."""

import functools
import os
import re
import subprocess

_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def under_test():
    """Path of the binary under test: TEST_NGINX_BINARY, or objs/nginx of this tree."""
    return os.path.abspath(os.environ.get("TEST_NGINX_BINARY", os.path.join(_root, "objs/nginx")))


def reference():
    """Path of the reference: TEST_REFERENCE_BINARY, or Debian's nginx."""
    return os.environ.get("TEST_REFERENCE_BINARY", "/usr/sbin/nginx")


@functools.lru_cache(maxsize=None)
def version_text(binary):
    """What the binary prints for -V, or the reason why it prints nothing."""
    try:
        done = subprocess.run([binary, "-V"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=20, check=False)
    except OSError as error:
        return "not there: %s" % error.strerror
    return done.stdout.decode("latin-1")


def version(binary):
    """The binary's version line(s) in one line."""
    lines = [line for line in version_text(binary).split("\n") if "version" in line.lower()]
    return "; ".join(lines) if lines else version_text(binary)[:200]


def resident_limit(kilobytes):
    """A bound on resident memory: that of the usual build. Sanitizers keep shadow memory, and code that grows with each check:
    a worker of 9 MB has 33 with them."""
    return kilobytes * 5 // 2 if "--with-sanitizer" in version_text(under_test()) else kilobytes


def is_nginx_before(binary, *level):
    """True when the binary is the original nginx and older than level, such as (1, 29)."""
    text = version_text(binary)
    if "Portunus" in text:
        return False
    found = re.search(r"nginx/(\d+)\.(\d+)\.(\d+)", text)
    return bool(found) and tuple(int(part) for part in found.groups()) < level


def load_module(name, binary=None):
    """The line that loads a module that is not linked into a binary: its object lies beside it, Debian's where Debian has them."""
    directory = os.path.dirname(os.path.abspath(binary or under_test()))
    path = os.path.join(directory, name + ".so")
    if not os.path.exists(path):
        path = os.path.join("/usr/lib/nginx/modules", name + ".so")
    return "load_module %s;" % path if os.path.exists(path) else ""
