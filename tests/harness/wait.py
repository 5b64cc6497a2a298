"""Waiting for something to become true, bounded, without fixed sleeps."""

import time

# Seconds after which waiting is given up. Generous: it only decides how soon a failure shows.
LIMIT = 40.0


def until(condition, what="condition", limit=LIMIT):
    """Calls condition() again and again and gives its first true value.

    The pause between two calls grows from half a millisecond to 20. Raises AssertionError with
    `what` (a text, or a function that makes one) when the limit has passed.
    """
    end = time.monotonic() + limit
    pause = 0.0005
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("waited %gs in vain for: %s"
                                 % (limit, what() if callable(what) else what))
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
