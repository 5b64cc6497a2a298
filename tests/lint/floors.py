"""The house: which room a file lives in, and which room may use which."""

# From docs/architecture.md. A room uses rooms on floors below it, and itself; rooms side by side
# on one floor do not know each other.
FLOORS = {
    "base": 0,
    "fiber": 1,
    "event": 2,
    "net": 3,
    "conf": 4,
    "server": 5,
    "upstream": 6,
    "cache": 6,
    "http": 7,
    "stream": 7,
    "mail": 7,
    "http/modules": 8,
}

# What only the room itself may include: nothing outside src/fiber knows that stacks exist.
FACES = {"fiber": ("fiber/fiber.h",)}


def room_of(path):
    """The room of a path below src/ such as http/v1/parse.c, or None when there is none."""
    parts = path.split("/")
    if parts[:2] == ["http", "modules"]:
        return "http/modules"
    return parts[0] if len(parts) > 1 and parts[0] in FLOORS else None


def module_groups():
    """The files and folders of each module by auto/modules: place below src/ -> its module."""
    groups = {}
    with open("auto/modules", encoding="utf-8") as rows:
        for row in rows:
            words = row.split()
            if len(words) == 4 and not row.startswith("#") and words[3].endswith((".c", "/")):
                for file in words[3].split(","):
                    groups[file] = words[0]
    return groups


def module_of(path, groups):
    """The module that a file of http/modules belongs to; a header goes with the .c beside it."""
    stem = path.rsplit(".", 1)[0]
    folder = path.rsplit("/", 1)[0] + "/"
    return groups.get(stem + ".c") or groups.get(folder) or stem


def may_use(user, used, groups):
    """None when the file `user` may use the file `used`; else the reason why not."""
    from_room, to_room = room_of(user), room_of(used)
    if from_room is None or to_room is None:
        return "%s is on no floor" % (user if from_room is None else used)
    if from_room == to_room == "http/modules":
        if module_of(user, groups) != module_of(used, groups):
            return "a module does not use another module"
        return None
    if from_room == to_room:
        return None
    if FLOORS[to_room] > FLOORS[from_room]:
        return "src/%s lies above src/%s" % (to_room, from_room)
    if FLOORS[to_room] == FLOORS[from_room]:
        return "src/%s lies beside src/%s" % (to_room, from_room)
    return None
