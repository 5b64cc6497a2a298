"""Packages and layers: which package a file belongs to, and which package may use which."""

# From docs/architecture.md, from the ground up. A package is a folder with all folders in it that are
# no packages of their own. It uses itself and the packages of the rows above its own here; packages of one
# row do not know each other.
LAYERS = (
    ("base",),
    ("fiber",),
    ("event",),
    ("net/addr",),
    ("net/conn",),
    ("net/resolver", "net/shards"),
    ("net/tls", "net/datagram"),
    ("net/quic",),
    ("net/relay",),
    ("conf",),
    ("server",),    # generation.h and module.h: what upper layers see
    ("server/process",),
    ("server/configuration",),
    ("server/worker",),
    ("server/master",),
    ("server/program",),
    ("upstream",),  # what upper layers see, and what its packages share
    ("upstream/cells",),
    ("upstream/connections",),
    ("upstream/discovery",),
    ("upstream/peers",),
    ("upstream/picking",),
    ("upstream/health",),
    ("upstream/settings",),
    ("upstream/balancers",),
    ("upstream/worker",),
    ("store",),
    ("cache",),
    ("shared",),
    ("lua/vm",),
    ("lua/values", "lua/dict", "lua/tasks", "lua/sockets", "lua/process", "lua/tls"),
    ("lua/config",),
    ("lua/balancer", "lua/upstream"),
    ("mail/words", "stream/words"),
    ("mail/session",),
    ("mail/auth",),
    ("mail/backend",),
    ("mail/config",),
    ("mail/modules",),
    ("stream/session", "http/message"),
    ("stream/config", "http/routing"),
    ("stream/modules", "http/client"),
    ("http/request",),
    ("http/files",),
    ("http/codings",),
    ("http/variables",),
    ("http/v1", "http/v2", "http/v3"),
    ("http/exchange/options", "http/exchange/probe"),
    ("http/exchange",),
    ("http/exchange/heads", "http/exchange/cache"),
    ("http/exchange/h2", "http/exchange/h3"),
    ("http/exchange/module",),
    ("http/config",),
    ("http/modules",),
)
LEVELS = {package: level for level, row in enumerate(LAYERS) for package in row}

# Folders that stand side by side with all their packages.
PROTOCOLS = ("http", "stream", "mail")

# Who may look into struct conn (net/conn/conn.h), a TCP connection or what stands for one: the owners of connections and the wire
# formats, by folder or file. Others ask the owner (http/client/connection.h, stream/session/session.h, mail/session/session.h,
# upstream/connection.h), and pass on what it gives as the carrier.
KNOW_CONN = {
    "net/": "makes it",
    "server/": "its pool, and connections that move to another worker",
    "upstream/": "connections to backends, to sources of servers and of health checks",
    "store/": "connections to Redis",
    "shared/tls/": "handshakes with clients of any protocol",
    "shared/health/": "what health checks of any protocol say to a peer",
    "lua/sockets/": "Lua's sockets",
    "lua/tls/": "scripts in handshakes, which net/tls calls",
    "http/client/": "connections of clients",
    "http/v1/": "a wire format",
    "http/v2/": "a wire format",
    "http/v3/": "a wire format",
    "http/exchange/": "wire formats towards backends",
    "http/modules/backends/proxy/": "a wire format towards backends",
    "http/modules/backends/fastcgi/": "a wire format towards backends",
    "http/modules/backends/check/": "wire formats of health checks",
    "http/modules/clients/acme/fetch.c": "a client of its own: connections to the CA",
    "http/modules/status/otel/send.c": "a client of its own: connections to the collector",
    "http/modules/status/otel/otel.h": "the same",
    "http/modules/status/debug_conn.c": "lists all connections of a worker",
    "stream/session/": "connections of clients",
    "stream/modules/proxy/": "relays one connection to another",
    "stream/modules/lua/": "the bytes of the connection are the script's",
    "mail/session/": "connections of clients",
    "mail/backend/": "relays one connection to another",
    "mail/auth/auth.c": "a client of its own: connections to the authentication server",
}

# What only the package itself may include: nothing outside src/fiber knows that stacks exist.
INTERFACES = {"fiber": ("fiber/fiber.h",)}


def package_of(path):
    """The package of a path below src/ such as http/v1/parse.c, or None when there is none."""
    folder = path
    while "/" in folder:
        folder = folder.rsplit("/", 1)[0]
        if folder in LEVELS:
            return folder
    return None


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
    """The module that a file of a package of modules belongs to; a header goes with the .c beside it."""
    stem = path.rsplit(".", 1)[0]
    folder = path.rsplit("/", 1)[0] + "/"
    return groups.get(stem + ".c") or groups.get(folder) or stem


def stand_beside(one, other):
    """Whether neither of two packages may use the other."""
    tops = {one.split("/")[0], other.split("/")[0]}
    return LEVELS[one] == LEVELS[other] or (len(tops) == 2 and tops <= set(PROTOCOLS))


def may_use(user, used, groups):
    """None when the file `user` may use the file `used`; else the reason why not."""
    from_package, to_package = package_of(user), package_of(used)
    if from_package is None or to_package is None:
        return "%s belongs to no layer" % (user if from_package is None else used)
    if from_package == to_package and from_package.endswith("/modules"):
        if module_of(user, groups) != module_of(used, groups):
            return "a module does not use another module"
        return None
    if from_package == to_package:
        return None
    if stand_beside(from_package, to_package):
        return "src/%s lies beside src/%s" % (to_package, from_package)
    if LEVELS[to_package] > LEVELS[from_package]:
        return "src/%s lies above src/%s" % (to_package, from_package)
    return None
