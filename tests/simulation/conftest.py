"""Beside the helpers of these tests, so that pytest lets the tests of this folder import them."""
