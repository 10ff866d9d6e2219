"""Errors of engines tell their type, and no value: neither in their text nor in their context."""

import traceback

import polars as pl
import pytest

import pymc_private as pmp
from pymc_private.counts.engine_errors import UNREADABLE, batches_again, hide_quotes, read_again
from pymc_private.errors import DomainError, Unrepeatable, Unsupported

SECRET = "my secret"
KINDS = [OSError, FileNotFoundError, PermissionError, ImportError, ValueError, SystemExit]


def failing(error):
    """Work that raises an error with a value in it, and in what it came from."""

    def work():
        try:
            raise ValueError(SECRET)
        except ValueError as cause:
            raise error from cause

    return work


def printed(caught):
    return "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("kind", KINDS)
def test_no_error_is_quoted_whatever_its_type(kind):
    with pytest.raises(DomainError, match="could not read the table; nothing") as caught:
        hide_quotes(failing(kind(SECRET)), *UNREADABLE)
    assert caught.value.got == kind.__name__
    assert SECRET not in printed(caught)
    with pytest.raises(Unrepeatable, match="could not read the table again") as caught:
        read_again(failing(kind(SECRET)))
    assert SECRET not in printed(caught)


def test_errors_of_our_own_lose_what_they_came_from():
    own = Unsupported("of ours")
    own.__notes__ = [SECRET]
    with pytest.raises(Unsupported, match="of ours") as caught:
        hide_quotes(failing(own), *UNREADABLE)
    assert SECRET not in printed(caught)


def test_too_little_memory_is_told_without_a_text():
    with pytest.raises(MemoryError) as caught:
        hide_quotes(failing(MemoryError(SECRET)), *UNREADABLE)
    assert SECRET not in printed(caught)


@pytest.mark.parametrize("kept", [lambda work: hide_quotes(work, *UNREADABLE), read_again])
def test_an_interrupt_brings_no_error_of_the_engine_with_it(kept):
    with pytest.raises(KeyboardInterrupt) as caught:
        kept(failing(KeyboardInterrupt()))
    assert SECRET not in printed(caught)


def test_packages_that_are_not_installed_are_named():
    for name, told in (("pyarrow", "ImportError: pyarrow"), (SECRET, "ImportError")):
        with pytest.raises(DomainError) as caught:
            hide_quotes(failing(ImportError("text", name=name)), *UNREADABLE)
        assert caught.value.got == told


def test_batches_that_fail_later_are_not_quoted_either():
    def batches():
        yield 1
        raise OSError(SECRET)

    each = batches_again(batches)
    assert next(each) == 1
    with pytest.raises(Unrepeatable) as caught:
        next(each)
    assert SECRET not in printed(caught)
    assert list(batches_again(lambda: [1, 2])) == [1, 2]


def test_a_table_whose_columns_cannot_be_told_is_not_counted():
    table = pl.LazyFrame({"a": [1]}).select("b")
    with pytest.raises(DomainError, match="could not read the table; nothing was charged"):
        pmp.counts.noisy_counts(data=table, categories={"a": [1, 2]}, n=1, epsilon=1)
