"""What /proc tells about a process and about listening sockets."""

import glob
import os
import socket
import struct
import time

_ticks = os.sysconf("SC_CLK_TCK")


def _read(pid, name):
    with open("/proc/%d/%s" % (pid, name), "rb") as source:
        return source.read()


def title(pid):
    """What ps shows as the command: the process title; "" when the process is gone."""
    try:
        return _title(pid)
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _title(pid):
    return _read(pid, "cmdline").replace(b"\0", b" ").decode("latin-1").strip()


def status(pid, field):
    """One line of /proc/PID/status, without its name."""
    for line in _read(pid, "status").decode("latin-1").split("\n"):
        name, _, value = line.partition(":")
        if name == field:
            return value.strip()
    raise KeyError(field)


def resident_kb(pid):
    """VmRSS."""
    return int(status(pid, "VmRSS").split()[0])


def user(pid):
    """The effective user id."""
    return int(status(pid, "Uid").split()[1])


def is_alive(pid):
    """True while the process runs; a zombie does not."""
    try:
        return status(pid, "State")[0] not in "ZX"
    except (OSError, KeyError):
        return False


def is_leaving(pid):
    """Has this worker ended, or been told to end? One that is stopped cannot say, and what is no worker accepts nothing."""
    try:
        return status(pid, "State")[0] in "TZX" or not _title(pid).endswith("worker process")
    except (OSError, KeyError):
        return True


def _stat(pid):
    return _read(pid, "stat").decode("latin-1").rpartition(")")[2].split()


def children(pid):
    """Process ids of the living children."""
    found = []
    for path in glob.glob("/proc/%d/task/*/children" % pid):
        try:
            with open(path, encoding="ascii") as source:
                found += [int(word) for word in source.read().split()]
        except OSError:
            pass
    return sorted(found)


def parent(pid):
    return int(_stat(pid)[1])


def nice(pid):
    return int(_stat(pid)[16])


def cpu_seconds(pid):
    """Processor time, user and system."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _ticks


def limit(pid, name):
    """(soft, hard) of /proc/PID/limits as text, such as limit(pid, "Max open files")."""
    for line in _read(pid, "limits").decode("latin-1").split("\n"):
        if line.startswith(name):
            return tuple(line[len(name):].split()[:2])
    raise KeyError(name)


def environment(pid):
    """The environment that the process was started with, or has made where it keeps it in place."""
    pairs = _read(pid, "environ").decode("latin-1").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def directory(pid):
    return os.readlink("/proc/%d/cwd" % pid)


def sockets(pid):
    """Inodes of the sockets that a process has, in the order of their descriptors."""
    found = []
    for name in sorted(os.listdir("/proc/%d/fd" % pid), key=int):
        try:
            link = os.readlink("/proc/%d/fd/%s" % (pid, name))
        except OSError:
            continue
        if link.startswith("socket:"):
            found.append(link)
    return found


def connected_to(port):
    """Inodes of TCP sockets (IPv4) that are connected to that port, as sockets() has them."""
    with open("/proc/net/tcp", encoding="ascii") as source:
        lines = [line.split() for line in source][1:]
    return ["socket:[%s]" % line[9] for line in lines if line[2].endswith(":%04X" % port) and line[3] == "01"]


def listening(port):
    """How many TCP sockets listen on that port. Asked by sock_diag: /proc/net/tcp is slow when
    tens of thousands of connections have just ended."""
    count = 0
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as diag:  # NETLINK_SOCK_DIAG
            # nlmsghdr (SOCK_DIAG_BY_FAMILY, REQUEST | DUMP), inet_diag_req_v2 (state LISTEN)
            diag.send(struct.pack("=IHHII", 72, 20, 0x301, 1, 0) +
                      struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, 1 << 10) + bytes(48))
            count += _listening_in(diag, port)
    return count


def _listening_in(diag, port):
    count = 0
    while True:
        data = diag.recv(262144)
        while data:
            size, kind = struct.unpack_from("=IH", data)
            if kind != 20:
                assert kind == 3, "sock_diag failed"  # NLMSG_DONE
                return count
            count += struct.unpack_from(">H", data, 20)[0] == port
            data = data[(size + 3) & ~3:]


def is_idle(pid, seconds=0.5):
    """True when the process used less than a tenth of a processor over that time."""
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return cpu_seconds(pid) - before <= max(seconds / 10, 2 / _ticks)
