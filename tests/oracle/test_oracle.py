"""Each row of the tables: the server under test answers as the reference does."""

import difflib
import functools

import pytest

from harness import binaries

from . import engine, tables

CONFIGS = {config.name: config for config in tables.CONFIGS}

ROWS = [pytest.param(name, index, id="%s-%02d %s" % (name, index, row.text[:60]))
        for name, config in CONFIGS.items() for index, row in enumerate(config.rows)]


@functools.lru_cache(maxsize=None)
def both(name):
    return engine.run_both(CONFIGS[name], binaries.reference(), binaries.under_test())


def difference(reference, ours):
    return "\n".join(difflib.unified_diff(reference, ours, "reference", "under test", n=30,
                                          lineterm=""))


@pytest.mark.parametrize("name, index", ROWS)
def test_answer(name, index):
    reference, ours, _ = both(name)
    row = CONFIGS[name].rows[index]
    assert reference.failure is None, "the reference failed: " + reference.failure
    theirs, got = reference.exchanges[index], ours.exchanges[index]
    if got.ending == "not run":
        pytest.fail(ours.failure or "not run: the server answers no more")
    if row.expect is not None:
        mismatch = row.expect.mismatch(got.responses, got.ending)
        assert mismatch is None, "%s\n(%s)\n%s" % (mismatch, row.reason, "\n".join(got.render()))
        return
    assert theirs.ending != "timeout", "the reference does not answer: a fault of the table"
    left, right = theirs.render(), got.render()
    assert engine.same_exchange(theirs, got), row.text + "\n" + difference(left, right)


@pytest.mark.parametrize("name", CONFIGS)
def test_error_log(name):
    """Warnings and errors are the same in text and order, row by row."""
    reference, ours, problems = both(name)
    assert not problems, "\n".join(problems)
    assert ours.failure is None, ours.failure
    config = CONFIGS[name]
    if not config.errors:
        return

    def render(result):
        lines = []
        # How busy the machine was says nothing of what is compared.
        errors = [line for line in result.error_lines if "the event loop was blocked" not in line[-1]]
        for index, row in enumerate(config.rows):
            if row.expect is None:
                lines += ["%02d [%s] %s" % line for line in errors if line[0] == index]
        return lines + sorted("-- [%s] %s" % line[1:] for line in errors if line[0] is None)

    left, right = render(reference), render(ours)
    assert left == right, difference(left, right)
