"""The least program (minimal.c) as a server, beside which a row of a table is read."""

import loads
from servers import Server, free_port

NAME = "minimal"


def build(directory):
    """The program, compiled."""
    return loads.compile_program(directory, NAME, ("minimal.c",), ("-lssl", "-lcrypto"))


class Minimal(Server):
    """It runs; `words` are what follows the port on its command line."""

    def __init__(self, program, prefix, cpus, descriptors=20000, words=(), wrapper=()):
        self.words = words
        super().__init__(program, prefix, "", free_port(), cpus, descriptors, wrapper)

    def command(self):
        return [self.binary, str(self.port), *self.words]
