"""Workers of a server, once they are what they will be."""

import os

from . import proc
from .wait import until


EXCLUSIVE = 1 << 28  # EPOLLEXCLUSIVE, with which listening sockets are watched


def accepts(pid, epoll):
    """Does this descriptor of epoll(7) watch a listening socket? The reference is known to, once it has one."""
    if os.readlink("/proc/%d/exe" % pid).startswith("/usr/sbin/"):
        return True
    with open("/proc/%d/fdinfo/%s" % (pid, epoll)) as info:
        masks = [line.split("events:")[1].split()[0] for line in info if line.startswith("tfd:")]
    return any(int(mask, 16) & EXCLUSIVE for mask in masks)


def is_working(pid):
    """True for a worker that has its limits and user, accepts, and was not told to end."""
    try:
        if proc.title(pid) != "nginx: worker process":
            return False
        names = os.listdir("/proc/%d/fd" % pid)
        return any(os.readlink("/proc/%d/fd/%s" % (pid, name)) == "anon_inode:[eventpoll]" and
                   accepts(pid, name) for name in names)
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


def clients_of_all(server, workers, most=2000):
    """Kept connections to a server that answers "/" with $pid, until each of the workers has one.

    Who is asleep takes what comes, so which worker gets a connection is not ours to choose. Gives
    the clients and, for each, the number of its worker."""
    clients, owners = [], []
    while len(clients) < 12 or not set(owners) >= set(workers):
        assert len(clients) < most, "%s of %s have connections" % (set(owners), workers)
        clients.append(server.client())
        owners.append(int(clients[-1].request("/").text))
    return clients, owners
