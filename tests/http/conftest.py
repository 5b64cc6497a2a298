"""Beside the helpers of these tests, so that pytest lets the tests of every room below import them."""
