"""Pairs of requests and configurations on which the server and the reference must agree."""
