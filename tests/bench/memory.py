"""Memory of processes and of the kernel, from /proc."""


def fields_of(name, keys):
    """The lines `key: N kB` of a file, in bytes."""
    found = dict.fromkeys(keys, 0)
    with open(name, encoding="ascii") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key in found:
                found[key] = int(value.split()[0]) * 1024
    return found


def of_processes(pids):
    """Resident and proportional memory of some processes together."""
    total = {"Rss": 0, "Pss": 0}
    for pid in pids:
        for key, value in fields_of(f"/proc/{pid}/smaps_rollup", total).items():
            total[key] += value
    return total


def available():
    """What the machine could still give away."""
    return fields_of("/proc/meminfo", ("MemAvailable",))["MemAvailable"]


# What a socket in an epoll set takes: itself, its inode, its file, its name, its place in the set.
SOCKET_CACHES = ("TCP", "sock_inode_cache", "filp", "dentry", "eventpoll_epi", "eventpoll_pwq")


def slabs():
    """Bytes in use of each cache of the kernel's allocator; none where we may not know."""
    found = {}
    try:
        with open("/proc/slabinfo", encoding="ascii") as file:
            for line in file:
                words = line.split()
                if len(words) > 3 and words[1].isdigit():
                    found[words[0]] = int(words[1]) * int(words[3])
    except PermissionError:
        pass
    return found


def growth(before, after):
    """How much each figure has grown."""
    return {key: after[key] - before.get(key, 0) for key in after}
