"""The test harness: servers, raw HTTP clients, waiting. README.md shows how to use it."""

from .client import Client, Closed, ProtocolError, Response, Timeout
from .server import Server, run_binary
from .wait import until

__all__ = ["Client", "Closed", "ProtocolError", "Response", "Server", "Timeout", "run_binary",
           "until"]
