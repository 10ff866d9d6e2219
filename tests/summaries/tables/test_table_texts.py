"""Text by its bytes: the same hashes whoever holds them, and numbers as Python reads them."""

from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_private.summaries.tables import table_texts
from pymc_private.summaries.tables.coins import KEY_BYTES, Coins
from pymc_private.summaries.tables.table_batches import ROWS, as_table
from pymc_private.summaries.tables.table_texts import Texts

KEY = bytes(range(1, KEY_BYTES + 1))
PLAIN = ["", "a", "person 7", "eight by", "123456789", "é" * 9, "\ud800", "x" * 256, "y" * 400]
LIKE_NUMBERS = st.text("0123456789+-.eE_ \t", max_size=24)
LIKE_TIMES = st.from_regex(r"\d{4}-?W?\d\d-?\d{1,2}([T x]\d\d(:?\d\d(:?\d\d)?)?(Z|[+-]\d\d)?)?")
WORDS = st.sampled_from(
    ["inf", "-Infinity", "+nan", "iNF", "-INF ", " 1", "1\u00a0", "1\u0662", "_1"]
)


def is_read(reader, text):
    try:
        reader(text)
    except ValueError:
        return False
    return True


def numbers(values):
    return Coins(("id",), 2**14, key=KEY).numbers({"id": values})


def test_bytes_are_those_of_any_holder():
    of_text = Texts.of(PLAIN).hashes(KEY)
    assert len(set(of_text.tolist())) == len(PLAIN)
    sent = [text for text in PLAIN if text != "\ud800"]  # Arrow has no halves of pairs
    plain = Texts.of(sent).hashes(KEY)
    kinds = [pa.string(), pa.large_string(), pa.string_view()]
    held = [pa.array(sent, type=kind) for kind in kinds]
    held += [held[0].dictionary_encode(), pl.Series(sent).to_arrow()]
    held.append(pa.chunked_array([held[0][:3], held[0][3:]]))
    for one in held:
        np.testing.assert_array_equal(Texts.of_arrow(one).hashes(KEY), plain)
        np.testing.assert_array_equal(Texts.of_arrow(one[2:6]).hashes(KEY), plain[2:6])
        assert list(np.asarray(Texts.of_arrow(one))) == sent
    other = Texts.of(sent).hashes(KEY[::-1])
    assert (other != plain).all()
    assert len(Texts.of_arrow(held[0][:0])) == len(Texts.of([])) == 0


def test_no_bytes_of_what_is_no_text_or_is_missing():
    assert Texts.of_any(["a", 1]) is None
    assert Texts.of_any(["a", None]) is None
    assert Texts.of_arrow(pa.array([1, 2])) is None
    assert Texts.of_arrow(pa.array(["a", None])) is None


def test_hashes_do_not_depend_on_neighbors():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abé1"), rng.integers(0, 40))) for _ in range(300)]
    whole = Texts.of(texts).hashes(KEY)
    each = [Texts.of([text]).hashes(KEY)[0] for text in texts]
    np.testing.assert_array_equal(whole, each)


@given(st.lists(LIKE_NUMBERS | LIKE_TIMES | WORDS | st.text(max_size=20), max_size=20))
def test_text_is_read_at_once_as_one_by_one(texts):
    """An entry of another type makes Python read each entry."""
    column = np.empty(len(texts) + 1, dtype=object)
    column[:] = [*texts, None]
    found = numbers(Texts.of(texts)) if texts else np.zeros(0)
    np.testing.assert_array_equal(found, numbers(column)[: len(texts)])


@given(LIKE_NUMBERS | LIKE_TIMES | WORDS | st.text(max_size=20))
def test_no_number_and_no_time_is_overlooked(text):
    column = Texts.of([text]).trimmed()
    if not len(text) or text[0] not in "0123456789+-.iI \t":
        return
    if is_read(float, text):
        assert column.may_be_numbers()[0]
    if is_read(datetime.fromisoformat, text.strip()):
        assert column.may_be_numbers()[0] or column.may_be_times()[0]


def test_whole_numbers_are_those_of_python():
    rng = np.random.default_rng(1)
    texts = [str(rng.integers(0, 10**k)).zfill(k % 17) for k in rng.integers(1, 17, 500)]
    texts += ["9007199254740993", "9999999999999999", "0", "00000007"]
    is_whole, found = Texts.of(texts).whole_numbers()
    assert is_whole.all()
    np.testing.assert_array_equal(found, [float(text) for text in texts])
    others = ["", "1a", "a1", "1" * 17, "1.5", "/1", ":", "12345678x", "é", "\x7f", "\x8a1"]
    assert not Texts.of(others).whole_numbers()[0].any()


@pytest.mark.parametrize("text", ["7f3a-11", "123-45-6789", "2021-000123", "12345678-1234-5678"])
def test_ids_that_begin_like_numbers_are_not_read_one_by_one(text):
    column = Texts.of([text])
    assert not (column.may_be_numbers() | column.may_be_times()).any()


def engines(texts):
    import duckdb

    frame = pl.DataFrame({"id": texts})
    plain = pd.DataFrame({"id": np.array(texts, dtype=object)})
    return {
        "polars": frame,
        "lazy": frame.lazy(),
        "duckdb": duckdb.from_arrow(frame.to_arrow()),
        "pyarrow": frame.to_arrow(),
        "objects": plain,
        "strings": plain.astype("string[pyarrow]"),
    }


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_coins_are_the_same_on_all_engines_in_any_batches(monkeypatch):
    texts = [f"person {k}" for k in range(500)] + ["17", "1.5", "2020-01-01", " 4", "é", ""]
    wanted = np.sort(numbers(np.array(texts, dtype=object)))
    for size in (ROWS, 64):
        monkeypatch.setattr("pymc_private.summaries.tables.table_batches.ROWS", size)
        for name, data in engines(texts).items():
            batches = list(as_table(data).batches(["id"]))
            if name != "objects":  # which are read when their coins are made
                assert all(isinstance(batch["id"], Texts) for batch in batches)
            found = np.concatenate([numbers(batch["id"]) for batch in batches])
            np.testing.assert_array_equal(np.sort(found), wanted)


def test_objects_that_begin_as_text_need_not_be():
    values = np.array([f"person {k}" for k in range(300)] + [7], dtype=object)
    (batch,) = as_table(pd.DataFrame({"id": values})).batches(["id"])
    np.testing.assert_array_equal(numbers(batch["id"]), numbers(values))


def test_long_entries_are_hashed_whole():
    long = ["x" * 300 + end for end in "ab"]
    assert len(long[0]) > table_texts.MOST_WORDS * table_texts.WORD
    assert len(set(Texts.of(long).hashes(KEY).tolist())) == 2
