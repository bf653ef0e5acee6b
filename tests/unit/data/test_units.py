"""Ids of units: which rows belong together, whatever the type of the column and wherever it is stored."""

from __future__ import annotations

import hashlib
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings, strategies as st

from pais import ArgumentError, Ball, DataError, Facts, MismatchError, NormDistribution, UniformRule, sample
from pais._base.randomness import StreamBits
from pais.data.sources import source
from pais.data.units import Unit, UnitHash, ids_of_objects, normalised, people_word, seeded_identity

KEY = bytes(range(32))


def words(column: pa.Array, key: bytes = KEY) -> list[tuple[int, int]]:
    return [tuple(row) for row in UnitHash(key).words(normalised(column, "a test")).tolist()]


def ids(column: pa.Array) -> list[Any]:
    return list(normalised(column, "a test").to_pylist())


# -- masses ------------------------------------------------------------------------------------------------


def test_masses_are_whole_steps_rounded_down_and_add_up_to_at_most_one() -> None:
    for max_rows in (1, 2, 3, 7, 50, 1000, 1 << 20):
        unit = Unit(column="person", max_rows=max_rows)
        n_rows = np.unique(np.r_[1:400, max_rows, max_rows + 1, 2 ** np.arange(10, 40), 10**12])
        for m, mass in zip(n_rows.tolist(), unit.masses(n_rows).tolist(), strict=True):
            assert mass == (1 << unit.mass_bits) // max(m, max_rows)
            assert m * mass <= 1 << unit.mass_bits
            # At most a step below 1 / max(M, m), so that little is lost.
            assert (mass + 1) * max(m, max_rows) > 1 << unit.mass_bits


def test_floats_would_add_up_to_more_than_one() -> None:
    """The masses must be integers: sums of the double nearest to 1 / m exceed 1 for many m."""
    beyond = [m for m in range(1, 200) if sum([1.0 / m] * m) > 1.0]
    assert len(beyond) > 50


@pytest.mark.parametrize(("column", "max_rows"), [("", 1), (3, 1), ("u", 0), ("u", -1), ("u", 2.5), ("u", 1 << 21)])
def test_bad_units_are_refused(column: Any, max_rows: Any) -> None:
    with pytest.raises(ArgumentError):
        Unit(column=column, max_rows=max_rows)


# -- ids of every type -------------------------------------------------------------------------------------


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integers_are_their_own_words(kind: pa.DataType) -> None:
    column = pa.array([0, 1, 127, None], type=kind)
    assert ids(column) == [0, 1, 127, None]
    assert words(column.drop_null()) == [(0, 0), (1, 0), (127, 0)]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_text_is_trimmed_and_integers_in_it_are_the_integers(kind: pa.DataType) -> None:
    column = pa.array([" 17 ", "17", "\t-4\n", "17.0", "x17", "017", "+17", "1e1", "9223372036854775807"], type=kind)
    number, again, minus, as_float, *others, largest = words(column)
    assert number == again == as_float == words(pa.array([17]))[0]
    assert minus == words(pa.array([-4]))[0]
    assert largest == words(pa.array([2**63 - 1]))[0]
    assert len({number, *others}) == 5


def test_text_of_integers_beyond_64_bits_is_hashed() -> None:
    numbers = ["9223372036854775808", "-9223372036854775808", "-9223372036854775809", "99999999999999999999"]
    beyond, least, below, large = words(pa.array(numbers))
    assert least == (2**63, 0)
    assert all(second > 0 for _, second in (beyond, below, large))
    assert len({beyond, least, below, large}) == 4


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_empty_text_and_words_for_missing_values_are_missing_ids(kind: pa.DataType) -> None:
    assert ids(pa.array(["", "  ", None, " NA ", "null", "NaN", "a"], type=kind)) == [None] * 6 + ["a"]


def test_whole_floats_are_integers_and_other_floats_are_their_shortest_text() -> None:
    column = pa.array([5.0, -3.0, 0.0, -0.0, None, np.nan, np.inf])
    assert ids(column) == [5, -3, 0, 0, None, None, None]
    assert ids(pa.array([5.0, -3.0, -0.0, None, 2.5, -1e-7])) == ["5", "-3", "0", None, "2.5", "-1e-07"]
    assert ids(pa.array([5.0, np.nan], type=pa.float32())) == [5, None]


def test_floats_that_have_lost_digits_are_missing_ids() -> None:
    """Integers of 2**53 or more that a table holds as floats may have been different before."""
    lossy = [2.0**53, -(2.0**53), 2.0**53 + 2, 1e17, 1e300, -1.7976931348623157e308]
    exact = [2.0**53 - 1, 1 - 2.0**53, -4503599627370497.0, 8999999999999999.0]
    expected = [None] * 6 + [2**53 - 1, 1 - 2**53, -4503599627370497, 8999999999999999]
    assert ids(pa.array([*lossy, *exact])) == expected
    texts = [None if number is None else str(number) for number in expected]
    assert ids(ids_of_objects([*lossy, *exact])) == texts
    # A CSV file that pandas writes holds them as text.
    assert ids(pa.array(list(map(str, [*lossy, *exact])))) == texts
    assert ids(pa.array(["1.0E17", "1.5E+16", "9.9e+999", "12345678901234567.0"])) == [None] * 4
    others = ["1e17", "1.5e15", "2.5e-17", "1e+15", "12e+17", "12345678901234567", "a1e+17", "1.2.3", "x+y", "01e+17"]
    assert ids(pa.array(others)) == others


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 40).map(lambda k: k * 5e-324)))
def test_different_floats_have_different_ids(numbers: list[float]) -> None:
    numbers = [*numbers, 1.0, 2.0, 5e-324, 1e-323, 2.3e-308]
    different = {number for number in numbers if abs(number) < 2.0**53}
    assert len(set(words(pa.array(sorted(different))))) == len(different)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats() | st.integers(-(2**54), 2**54).map(float), max_size=9), st.sampled_from(["x", b"x", None]))
@example(numbers=[5.0, 0.5], cell=1 + 2j)
def test_an_object_among_floats_changes_no_id(numbers: list[float], cell: object) -> None:
    """One cell that is no float turns a column of a pandas frame into objects."""
    alone = normalised(pa.array(numbers, pa.float64()), "a test")
    # pandas and NumPy convert all numbers of a column with a complex number.
    cells = np.array([*numbers, cell]) if isinstance(cell, complex) else [*numbers, cell]
    among = normalised(ids_of_objects(cells), "a test")[: len(numbers)]
    assert alone.cast(pa.large_string()).cast(among.type).equals(among)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=9), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9))
def test_unsigned_integers_are_equal_to_their_text_and_never_to_negative_integers(
    unsigned: list[int], signed: list[int]
) -> None:
    numbers = [*unsigned, *signed]
    columns = [pa.array(unsigned, pa.uint64()), pa.array(signed, pa.int64())]
    both = [word for column in columns for word in words(column)]
    assert both == words(pa.array(list(map(str, numbers)), pa.string()))
    assert len(set(both)) == len(set(numbers))


def test_whole_decimals_are_exact_and_decimals_with_a_scale_are_refused() -> None:
    numbers = [Decimal(10**17 + 1), Decimal(10**17 + 2), Decimal(-5), None]
    for kind in (pa.decimal128(18, 0), pa.decimal128(38, 0), pa.decimal256(60, 0)):
        assert ids(pa.array(numbers, kind)) == [str(10**17 + 1), str(10**17 + 2), "-5", None]
    with pytest.raises(DataError, match="neither integers nor text"):
        normalised(pa.array(numbers, pa.decimal128(38, 2)), "a test")
    cells = [*numbers, Decimal("7.00"), Decimal("7.5"), Decimal("NaN"), Decimal("sNaN"), Decimal("1e999999999")]
    kept = [str(10**17 + 1), str(10**17 + 2), "-5", None, "7", None, None, None, None, None]
    assert ids(ids_of_objects([*cells, Decimal("1e-999999999")])) == kept


def test_dictionaries_binaries_and_uuids() -> None:
    assert ids(pa.array(["a", " b", None, "a"]).dictionary_encode()) == ["a", "b", None, "a"]
    assert ids(pa.array([3, None, 3]).dictionary_encode()) == [3, None, 3]
    for kind in (pa.binary(), pa.large_binary(), pa.binary(3)):
        assert ids(pa.array([b"abc", None, b"\x00\xff ", b"abc"], type=kind)) == [b"abc", None, b"\x00\xff ", b"abc"]
    if hasattr(pa, "uuid"):
        people = [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes]
        column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(people, type=pa.binary(16)))
        assert ids(column) == people
    assert ids(pa.nulls(2)) == [None, None]


@pytest.mark.parametrize("kind", [pa.bool_(), pa.date32(), pa.list_(pa.int64()), pa.struct([("a", pa.int64())])])
def test_other_types_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(DataError, match="neither integers nor text"):
        normalised(pa.nulls(3, kind), "a test")


def test_objects_are_converted_cell_by_cell() -> None:
    person = uuid.uuid4()
    cells = [7, "7", 7.0, np.int32(7), np.float64(7.0), person, str(person), None, np.nan, True, [7], 10**30, pd.NA]
    kept = ids(ids_of_objects(cells))
    assert kept[:5] == ["7"] * 5
    assert kept[5] == kept[6] == str(person)
    assert kept[7:] == [None] * 4 + [str(10**30), None]


def test_no_object_raises_an_error() -> None:
    strange = [10**5000, -(10**5000), "\ud800", "a\udfff", np.timedelta64(1, "D"), pd.NaT, object(), 1j, {}, 2**3000]
    assert ids(ids_of_objects([*strange, "é", "a"])) == [None] * len(strange) + ["é", "a"]


def test_bytes_and_text_among_objects() -> None:
    assert ids(ids_of_objects([b"a", " a ", b" a", 17, "17.0", "NA", b"\xff"])) == [
        *(b"a", b"a", b" a", b"17", b"17", None, b"\xff")
    ]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=12) | st.none(), max_size=30), st.integers(0, 29))
def test_no_id_changes_another(texts: list[str | None], place: int) -> None:
    whole = ids(pa.array(texts, type=pa.string()))
    assert whole == [ids(pa.array([text], type=pa.string()))[0] for text in texts]
    assert ids(pa.array(texts, type=pa.string()).slice(place)) == whole[place:]


# -- the hash ----------------------------------------------------------------------------------------------


def multilinear(text: bytes, key: bytes, *, length: int | None = None) -> tuple[int, int]:
    """The same hash, one 32-bit character at a time, in Python integers."""
    stream = [int(word) for word in StreamBits(key, context=b"units").words64(4 * 34)]
    keys = [stream[4 * i : 4 * i + 4] for i in range(34)]
    padded = text + bytes(-len(text) % 8)
    characters = [len(text) if length is None else length]
    characters += [int.from_bytes(padded[i : i + 4], "little") for i in range(0, len(padded), 4)]
    totals = [
        (keys[0][lane] + sum(keys[1 + i][lane] * character for i, character in enumerate(characters))) % 2**64
        for lane in range(4)
    ]
    halves = [total >> 32 for total in totals]
    return halves[0] << 32 | halves[1], halves[2] << 32 | halves[3]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=128), max_size=8), st.integers(0, 7))
def test_words_of_texts_are_those_of_the_multilinear_family(texts: list[bytes], start: int) -> None:
    column = pa.array([b"before", *texts], type=pa.large_binary()).slice(start)
    assert words(column) == [multilinear(text, KEY) for text in [b"before", *texts][start:]]


def test_a_long_text_is_not_taken_for_the_short_text_that_equals_its_digest() -> None:
    long = b"x" * 1000
    digest = hashlib.blake2b(long, digest_size=64, person=b"pais unit").digest()
    column = pa.array([long, long + b"x", digest, digest + b"digest", long], type=pa.large_binary())
    first, longer, *short, again = words(column)
    assert first == again == multilinear(digest, KEY, length=1000)
    assert len({first, longer, *short}) == 4


def test_the_key_decides_the_words_and_a_fresh_key_is_drawn() -> None:
    column = pa.array(["anna"])
    assert words(column) == words(column)
    assert words(column) != words(column, bytes(32))
    fresh = [UnitHash().words(normalised(column, "a test")).tolist() for _ in range(2)]
    assert fresh[0] != fresh[1]


def test_collisions_of_few_bits_are_as_rare_as_those_of_a_random_function() -> None:
    """Two ids share 8 given bits of a lane with probability 1/256 over the key. Without a key they could share all."""
    pairs = [(b"anna", b"anne"), (b"a" * 40, b"a" * 39 + b"b"), (b"", b"\0"), (b"12 34", b"12 43")]
    column = pa.array([text for pair in pairs for text in pair], type=pa.large_binary())
    keys = 6000
    equal = np.zeros(4, dtype=int)
    for number in range(keys):
        hashed = UnitHash(number.to_bytes(32, "little")).words(column)
        for lane, (word, shift) in enumerate([(0, 56), (0, 24), (1, 56), (1, 24)]):
            lanes = (hashed[:, word] >> np.uint64(shift)) & np.uint64(255)
            equal[lane] += int((lanes[::2] == lanes[1::2]).sum())
    expected = keys * len(pairs) / 256
    assert np.all(np.abs(equal - expected) < 5 * np.sqrt(expected))
    assert sum(b"12 34") == sum(b"12 43"), "a hash without keys would have equal words for every key"


def test_no_ids() -> None:
    for column in (pa.array([], pa.string()), pa.array([], pa.int64()), pa.array([], pa.binary())):
        assert UnitHash(KEY).words(normalised(column, "a test")).shape == (0, 2)
        assert seeded_identity(normalised(column, "a test")).shape == (0,)


def test_identities_of_a_seeded_run_follow_from_the_ids_alone() -> None:
    numbers, texts = pa.array([3, 5, 3]), pa.array(["3", "5.0", " 3"])
    first, second = (seeded_identity(normalised(column, "a test")) for column in (numbers, texts))
    np.testing.assert_array_equal(first, second)
    assert first[0] == first[2] != first[1]


# -- files ---------------------------------------------------------------------------------------------------


def test_ids_of_a_csv_file_are_those_of_a_parquet_file(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0, 5.0], "who": [3.0, 4.0, np.nan, 3.0, 2.0**40]})
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.to_parquet(tmp_path / "people.parquet")
    identities = []
    for name in ("people.csv", "people.parquet"):
        engine: Any = source(tmp_path / name, columns=["x"], unit="who")
        block, *_ = engine._over_blocks(lambda block, _: block)
        assert block.n_rows == 4
        identities.append(seeded_identity(block.units))
    np.testing.assert_array_equal(*identities)


def test_words_for_missing_ids_do_not_depend_on_carried_columns(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("x,who,name\n1,anna,A\n2,NA,B\n3,,C\n4,anna,D\n5, null ,E\n")
    for carry in ((), ("name",), ("who", "name")):
        engine: Any = source(tmp_path / "people.csv", columns=["x"], unit="who", carry=carry)
        (block,) = engine._over_blocks(lambda block, _: block)
        assert block.units.to_pylist() == ["anna", "anna"]


def test_ids_of_a_csv_file_that_cannot_be_decoded_are_missing(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(b"x,who\n1,\xff\xfe\n2,ok\n3,M\xfcller\n")
    engine: Any = source(tmp_path / "people.csv", columns=["x"], unit="who")
    (block,) = engine._over_blocks(lambda block, _: block)
    assert block.units.to_pylist() == ["ok"]


def test_unit_that_is_a_feature_or_does_not_exist_is_refused() -> None:
    frame = pd.DataFrame({"x": [1.0], "who": [1]})
    with pytest.raises(ArgumentError, match="is the unit and a feature"):
        source(frame, columns=["x", "who"], unit="who")
    with pytest.raises(DataError, match="whom"):
        source(frame, columns=["x"], unit="whom")
    with pytest.raises(DataError, match="no column names"):
        source(np.ones((2, 2)), unit="who")
    assert source(frame, unit="who").names == ("x",)


def masses(data: object) -> list[float]:
    engine = source(data, columns={"v": (0, 1)}, unit="who")
    kept = sample(engine, ball=Ball(radius=1.0, order=1), rule=UniformRule(rate=1.0)).spend("a test")
    return sorted(np.round(kept.weights, 5).tolist())


def test_a_missing_id_changes_no_other_id_of_a_pandas_frame() -> None:
    """It turns integers into floats. Those that lose digits become missing instead of one unit."""
    large = 10**17
    for ids_, kept in (
        ([7, 7, 8], [0.5, 0.5, 1.0]),
        ([2**53 - 1, 2**53 - 2, 8], [1.0] * 3),
        ([large + 1, large + 1, large + 2, 8], [1.0]),
    ):
        frame = pd.DataFrame({"who": [*ids_, None], "v": 0.5})
        assert frame["who"].dtype == np.float64
        assert masses(frame) == kept
    assert masses(pd.DataFrame({"who": [large + 1, large + 1, large + 2], "v": 0.5})) == [0.5, 0.5, 1.0]
    nullable = pd.DataFrame({"who": pd.array([large + 1, large + 1, large + 2, None], dtype="Int64"), "v": 0.5})
    assert masses(nullable) == [0.5, 0.5, 1.0]


def two_files(home: Path, first: pa.Array, second: pa.Array) -> Path:
    home.mkdir()
    for name, column in (("a", first), ("b", second)):
        pq.write_table(pa.table({"who": column, "v": np.full(len(column), 0.5)}), home / f"{name}.parquet")
    return home


LARGE = 9007199254740994


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array(["17"]), pa.array([b"17"])),
        (pa.array([" a"]), pa.array([b" a"]).cast(pa.large_binary())),
        (pa.array(["17"]), pa.array([17])),
        (pa.array([float(LARGE)]), pa.array([f"{LARGE}.0"])),
        (pa.array([2**64 - 1], pa.uint64()), pa.array([str(2**64 - 1)])),
        (pa.nulls(0, pa.string()), pa.nulls(0, pa.int64())),
        (pa.array(["a"]).dictionary_encode(), pa.array([5], pa.int8())),
    ],
)
def test_files_whose_ids_cannot_be_compared_are_refused_before_rows_are_read(
    first: pa.Array, second: pa.Array, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"unit column 'who' of .* holds"):
        source(two_files(tmp_path / "files", first, second), columns={"v": (0, 1)}, unit="who")
    (tmp_path / "null").mkdir()
    for name, column in (("0", pa.nulls(1)), ("1", first), ("2", second)):
        pq.write_table(pa.table({"who": column, "v": np.full(len(column), 0.5)}), tmp_path / "null" / f"{name}.parquet")
    with pytest.raises(DataError, match=r"unit column 'who' of .*2.parquet holds"):
        source(tmp_path / "null", columns={"v": (0, 1)}, unit="who")


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (pa.array([17] * 3), pa.array([17.0, None, 18.0]), [0.25] * 4 + [1.0]),
        (pa.array([LARGE] * 2), pa.array([float(LARGE)] * 2), [0.5] * 2),
        (pa.array([2**64 - 1], pa.uint64()), pa.array([-1]), [1.0, 1.0]),
        (pa.array([2**64 - 1, 3], pa.uint64()), pa.array([3], pa.int8()), [0.5, 0.5, 1.0]),
        (pa.array([1.5, 2.0]), pa.array([2, 3]), [0.5, 0.5, 1.0, 1.0]),
        (pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0)), pa.array([2**64 - 1], pa.uint64()), [0.5, 0.5]),
        (pa.array([" a", "b"]), pa.array(["a", "a"]).dictionary_encode(), [0.33333] * 3 + [1.0]),
        (pa.nulls(2), pa.array(["a", "a"]), [0.5, 0.5]),
        (pa.array([b"a"]), pa.array([b"a"], pa.binary(1)), [0.5, 0.5]),
    ],
)
def test_ids_of_files_of_one_kind_are_compared_by_their_value(
    first: pa.Array, second: pa.Array, kept: list[float], tmp_path: Path
) -> None:
    home = two_files(tmp_path / "files", first, second)
    assert masses(home) == kept
    assert masses(source(home, columns={"v": (0, 1)}, unit="who").held()) == kept


# -- sources that are open already ---------------------------------------------------------------------------


def test_options_of_a_source_that_is_open_already_are_refused_if_they_differ() -> None:
    frame = pd.DataFrame({"v": [0.5], "w": [0.5], "who": [1], "other": [1]})
    rows = source(frame, columns=["v"], carry=["who"])
    for options in (
        {"unit": "who"},
        {"columns": ["w"]},
        {"columns": {"v": (0, 1)}},
        {"carry": ["other"]},
        {"key": "who"},
        {"missing": "error"},
        {"decimal": ","},
    ):
        with pytest.raises(ArgumentError, match=f"{next(iter(options))} cannot be stated for a source that is open"):
            source(rows, **options)  # type: ignore[arg-type]
    assert source(rows) is source(rows, columns=["v"], carry=["who"]) is rows
    people = source(frame, columns={"v": (0, 1)}, unit="who", max_rows_per_unit=3)
    for options in ({"unit": "other"}, {"unit": "who"}, {"columns": {"v": (0, 2)}}, {"columns": ["v"]}):
        with pytest.raises(ArgumentError, match="cannot be stated"):
            source(people, **options)  # type: ignore[arg-type]
    assert source(people, columns={"v": (0, 1)}, unit="who", max_rows_per_unit=3) is people
    assert source(people, unit=Unit(column="who", max_rows=3)) is people


def test_facts_about_another_unit_are_refused() -> None:
    norms = NormDistribution.from_histogram([0.0, 1.0], [100.0])
    facts = Facts(ball=Ball(radius=1.0), norms=norms, unit=Unit(column="who"))
    for unit in (None, Unit(column="other"), Unit(column="who", max_rows=2)):
        with pytest.raises(MismatchError, match="another unit"):
            facts.about(unit, None)
    assert facts.about(Unit(column="who"), None) == facts
    stated = Facts(ball=Ball(radius=1.0), norms=norms)
    assert stated.about(Unit(column="who"), None) == facts


def test_text_that_has_lost_characters_names_nobody() -> None:
    """Read as UTF-8, a file in cp1252 would make one person of Moeller and Mueller, written with umlauts."""
    ids = pa.array(["M\ufffdller", "M\u00fcller", " Meier "])
    assert normalised(ids, "a test").to_pylist() == [None, "M\u00fcller", "Meier"]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("patient_id", ("patient", "patients")),
        ("customerID", ("customer", "customers")),
        ("USERID", ("user", "users")),
        ("household no.", ("household", "households")),
        ("client_company", ("company", "companies")),
        ("child", ("child", "children")),
        ("id", ("person", "people")),
        ("person_id", ("person", "people")),
        ("kunde_nr", ("person", "people")),
        (None, ("person", "people")),
    ],
)
def test_the_name_of_a_column_tells_what_its_units_are_called(column: str | None, words: tuple[str, str]) -> None:
    assert people_word(column) == words
