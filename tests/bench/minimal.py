"""The least programs (minimal.c on epoll, minimal_uring.c on io_uring) as servers, beside which a row of a table is read."""

import ctypes
import os
import struct

import loads
from servers import Server, free_port

NAME, URING = "minimal", "minimal_uring"
IO_URING_SETUP, SINGLE_ISSUER, DEFER_TASKRUN = 425, 1 << 12, 1 << 13
PARAMS_SIZE, FLAGS_OFFSET = 120, 8      # of struct io_uring_params


def build(directory, name=NAME):
    """One of them, compiled."""
    return loads.compile_program(directory, name, (f"{name}.c",), ("-lssl", "-lcrypto") if name == NAME else ())


def has_io_uring():
    """Does the kernel, and do filters of system calls, let a process have what minimal_uring.c needs?"""
    params = ctypes.create_string_buffer(PARAMS_SIZE)
    struct.pack_into("I", params, FLAGS_OFFSET, SINGLE_ISSUER | DEFER_TASKRUN)
    ring = ctypes.CDLL(None).syscall(IO_URING_SETUP, 1, params)
    if ring >= 0:
        os.close(ring)
    return ring >= 0


class Minimal(Server):
    """It runs; `words` are what follows the port on its command line."""

    def __init__(self, program, prefix, cpus, descriptors=20000, words=(), wrapper=()):
        self.words = words
        super().__init__(program, prefix, "", free_port(), cpus, descriptors, wrapper)

    def command(self):
        return [self.binary, str(self.port), *self.words]
