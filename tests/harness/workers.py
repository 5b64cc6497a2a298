"""Workers of a server, once they are what they will be."""

import os

from . import proc
from .wait import until


def is_working(pid):
    """True for a worker that has its limits and user, and was not told to end."""
    try:
        if proc.title(pid) != "nginx: worker process":
            return False
        names = os.listdir("/proc/%d/fd" % pid)
        return any(os.readlink("/proc/%d/fd/%s" % (pid, name)) == "anon_inode:[eventpoll]"
                   for name in names)
    except OSError:
        return False


def wait_workers(server, count, without=()):
    """Waits until the server has exactly so many children, all of them working, and none of
    `without` (those of before a reload). Gives their numbers, in the order of their start."""
    def settled():
        found = server.children()
        return len(found) == count and not set(found) & set(without) and all(map(is_working, found))
    until(settled, lambda: "%d workers, of %s\n%s" % (count, server.children(), server.evidence()))
    return server.children()
