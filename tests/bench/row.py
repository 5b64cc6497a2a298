"""What a row of the benchmark is."""

from dataclasses import dataclass, field

ALL = frozenset({"load", "syscalls", "instructions"})
MODES = frozenset({"modes"})            # of rows that compare how workers share connections
CLOCKED = ALL - {"instructions"}        # of rows whose instructions another row tells


@dataclass(frozen=True)
class Row:
    """One line of the table. `server` stands in the server block, `http` around it."""

    name: str
    title: str
    server: str
    uris: tuple = ("/empty.gif",)
    http: str = "access_log off;"
    main: str = ""                      # outside of all blocks
    keepalive_timeout: int = 600        # seconds
    host: str = "localhost"
    options: tuple = ()                 # further options of the load generator
    body_size: int = None               # bytes of the body, where it is known
    targets: dict = field(default_factory=dict)     # cpu (ratio), syscalls, instructions, bytes,
                                                    # bytes_ratio, library (ratio)
    measures: frozenset = ALL
    counted: tuple = (512, 2560)        # requests of the two runs whose difference is counted
    idle: int = 0                       # idle connections held meanwhile
    waiting: int = 0                    # requests that wait for the backend meanwhile
    waiting_count: str = ""             # asked for, says how many wait where no backend counts them
    workers: int = 1                    # of more than one, each has a CPU, the client's too if it must
    is_bound: bool = False              # worker_cpu_affinity auto
    is_stream: bool = False             # server and http stand in the block stream
    backend: tuple = ()                 # what stands behind the server: see backends.py
    only: tuple = ("", "")              # what {only} is for Portunus, and for the reference
    most_passed: int = None             # requests that the backend may see: the cache has the rest
    tls: str = ""                       # kind of certificate, see make_certificates
    tls_behind: str = ""                # … of the backend, to which TLS passes as it is
    is_datagram: bool = False           # of stream, by UDP: see datagrams.py
    streams: int = 0                    # HTTP/2, by h2load, with so many on a connection
    connections: int = None             # at a time, where the row sets it and not the options
    message: bytes = b""                # what each request posts, as a gRPC call
    headers: tuple = ()                 # further lines of each request
    modules: tuple = ()                 # of the reference: objects that it loads
    needs: tuple = ()                   # modules that ours must have; the row is left out otherwise
    coding: str = ""                    # of the bodies: they are judged decoded, and their sizes told
    beside: str = ""                    # asked for with headers, at a low rate; see beside.py
    library: tuple = ()                 # options of coding_cost: the library alone at the same work
    is_alone: bool = False              # the reference has nothing like it
    is_against_itself: bool = False     # the reference is ours, with the other half of `only`
