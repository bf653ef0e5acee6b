"""The one-line statistics, which return a `Statistic`.

A release of all rows reads the table in one pass. With a unit, a pass before it counts the rows of each person. A
survey reads the table too: for the bounds of "auto" columns, for the number of rows that a sample needs, and for bounds
on what people contribute to sums and counts of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pais._base.randomness import RandomState
from pais._base.validate import count as count_of, without_sizes
from pais.accounting.ledger import Ledger
from pais.data.columns import Missing
from pais.data.schema import Schema
from pais.data.units import Unit
from pais.errors import ArgumentError
from pais.privacy.rules import Rule
from pais.statistics.found import most_frequent
from pais.statistics.people import TotalSettings
from pais.statistics.recipes import (
    DESCRIBED,
    Counts,
    Covariance,
    Description,
    Histogram,
    Means,
    PeopleCounts,
    Sums,
    SumsOfSample,
    Variances,
)
from pais.statistics.result import Statistic
from pais.statistics.settings import StatisticSettings, is_sampled
from pais.statistics.table import By, Selection

Columns = Mapping[str, object] | Schema | object
Sampling = Literal["none", "constrained", "uniform", "coreset"] | Rule


@without_sizes
def mean(
    rows: object,
    columns: Columns = None,
    *,
    by: By = None,
    unit: str | Unit | None = None,
    max_rows_per_unit: int | None = None,
    max_groups_per_unit: int | None = None,
    missing: Missing = "drop",
    epsilon: float = 1.0,
    delta: float | None = None,
    sampling: Sampling = "none",
    sample_size: float | None = None,
    ledger: Ledger | None = None,
    random_state: RandomState = None,
) -> Statistic:
    """Release the mean of each column: numbers and dates in own units, shares of true and of each category.

    Parameters
    ----------
    rows : table, path, Spark DataFrame or source
        Any input of `pais.source` with named columns, or a single column: a Series or a one-dimensional array.
    columns : mapping, Schema
        What is public about each column, as in `DPKMeans`: ``{"age": (18, 100), "income": "auto", "premium": bool}``.
        The bounds of "auto" columns are found privately, for a part of epsilon, and the categories of those whose type
        is text, as with `pais.names`. For a single column, state its bounds alone: ``columns=(18, 100)``.
    by : str, sequence of str or mapping, optional
        Columns with public categories, which form groups. The categories are stated in `columns`, or here:
        ``by={"region": ["north", "south"]}``. Ranges of numbers and periods of dates form groups too:
        ``by={"age": pais.ranges(0, 20, 40, 60), "joined": pais.months("2024-01-01", "2024-12-31")}``. The number of
        groups does not raise the noise of a group. A row whose category is missing or not listed, or whose value is
        outside the ranges, belongs to no group.
    unit, max_rows_per_unit : optional
        Who is protected: see `pais.source`. By default every person counts once, and their rows share one weight. With
        `max_rows_per_unit` M, every row of a person with m rows has the weight M / max(M, m).
    max_groups_per_unit : int, optional
        For groups that nobody listed: the number of names of a person that count when names are looked for. It is
        found privately if it is not stated.
    missing : {"drop", "midpoint", "error"}
        "drop" leaves out a missing cell, as pandas does, and keeps the other cells of its row. "midpoint" and "error"
        work as in `pais.source`. Then all columns have the same number of cells, and means of several columns have
        less noise. A source that is open already treats missing values as it was told there.
    epsilon : float
        Guarantee for everything that this call releases.
    delta : float, optional
        None uses pure noise, or Gaussian noise with delta = 1e-9 if that is smaller, which it is for many columns. 0
        always uses pure noise. A positive number allows Gaussian noise with this delta.
    sampling : {"none", "constrained", "uniform", "coreset"} or Rule
        By default all rows are used: a pass over them costs little, and a sample would add more error than noise does.
    sample_size : float, optional
        Expected number of rows in the sample; None keeps all rows.
    ledger : Ledger, optional
        Charged before any noise is drawn, as is every active ledger.
    random_state : None, int or numpy Generator
        None draws from the cryptographic generator. Any other value is not private.

    Returns
    -------
    Statistic
        `value`, `standard_error`, `interval(0.95)`, `clipping` and `certificate`.

    Notes
    -----
    Guarantee. A row splits at most its weight between two totals of each column, whatever it holds. So d columns cost
    what d counts cost, for any number of groups: `tests/theory/test_statistics.py`.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> result = pais.mean(people, columns={"age": (18, 100), "premium": bool}, epsilon=1.0)
    >>> bool(40 < result.value["age"] < 60)
    True
    """
    return StatisticSettings.released(rows, locals(), recipe=Means())


@without_sizes
def count(
    rows: object,
    columns: Columns = None,
    *,
    by: By = None,
    unit: str | Unit | None = None,
    max_rows_per_unit: int | None = None,
    max_groups_per_unit: int | None = None,
    missing: Missing = "drop",
    epsilon: float = 1.0,
    delta: float | None = None,
    sampling: Sampling = "none",
    sample_size: float | None = None,
    ledger: Ledger | None = None,
    random_state: RandomState = None,
) -> Statistic:
    """Release the number of rows, or of cells that are not missing, or of rows in each category.

    Parameters
    ----------
    rows : table, path, Spark DataFrame or source
        The table.
    columns : mapping, Schema, optional
        None counts rows. Otherwise the cells of each column that are not missing are counted; of a column with
        categories, the rows in each category. Other arguments are those of `pais.mean`.
    unit, max_rows_per_unit : optional
        Who is protected, as in `pais.sum`. Rows are counted, not people: see `pais.count_people`.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> result = pais.count(people, by={"region": ["north", "south"]}, epsilon=1.0)
    >>> result.value.index.tolist()
    ['north', 'south']
    """
    return TotalSettings.released(rows, locals(), needs_columns=False, recipe=Counts())


@without_sizes
def count_people(
    rows: object,
    *,
    unit: str | Unit | None = None,
    max_groups_per_unit: int | None = None,
    by: By = None,
    missing: Missing = "drop",
    epsilon: float = 1.0,
    delta: float | None = None,
    ledger: Ledger | None = None,
    random_state: RandomState = None,
) -> Statistic:
    """Release the number of people who have rows in a table, in all or in each group.

    Parameters
    ----------
    rows : table, path, Spark DataFrame or source
        The table.
    unit : str
        The column that names the person of each row. A source that is open already has its own.
    by : str, sequence of str or mapping, optional
        Columns with public categories, which form groups, as in `pais.mean`. A person with rows in several groups
        counts in each of them. How many groups a person has is found privately, for a small part of epsilon.
    max_groups_per_unit : int, optional
        State how many groups of a person count instead. With few groups and names that nobody listed, the counts then
        have nearly the noise of listed groups.
    missing, epsilon, delta, ledger, random_state : optional
        As in `pais.mean`.

    Notes
    -----
    Guarantee. A person with any rows in any groups is one record: `tests/theory/test_people_totals.py`.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> result = pais.count_people(people, unit="customer_id", epsilon=1.0)
    >>> bool(4950 < result.value < 5050)
    True
    """
    stated = {**locals(), "columns": None, "max_rows_per_unit": None, "sampling": "none", "sample_size": None}
    return TotalSettings.released(rows, stated, needs_columns=False, recipe=PeopleCounts())


@without_sizes
def sum(  # noqa: A001  # the name of the statistic in pandas and NumPy
    rows: object,
    columns: Columns = None,
    *,
    by: By = None,
    unit: str | Unit | None = None,
    max_rows_per_unit: int | None = None,
    max_groups_per_unit: int | None = None,
    missing: Missing = "drop",
    epsilon: float = 1.0,
    delta: float | None = None,
    sampling: Sampling = "none",
    sample_size: float | None = None,
    ledger: Ledger | None = None,
    random_state: RandomState = None,
) -> Statistic:
    """Release the sum of each column; for booleans the number of true, for categories the rows in each.

    Parameters
    ----------
    rows, columns, by, missing, epsilon, delta, sampling, sample_size, ledger, random_state
        As in `pais.mean`. With a `unit`, all people are used and samples are refused.
    unit, max_rows_per_unit : optional
        Who is protected. The sum is over all rows of all people. What a person adds is bounded as a whole, over all
        groups: by `max_rows_per_unit` times the largest value that the bounds allow, if it is stated. Otherwise a part
        of epsilon pays for a bound that is found privately. What it is expected to cut off is then added back where
        that is right, and its uncertainty is in the intervals.

    Notes
    -----
    Guarantee. A person with any rows changes the totals of a column by at most the bound:
    `tests/theory/test_people_totals.py`.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> result = pais.sum(people, columns={"premium": bool}, epsilon=1.0)
    >>> bool(0 < result.value < people.num_rows)
    True
    """
    recipe = SumsOfSample() if is_sampled(sampling, sample_size) else Sums()
    return TotalSettings.released(rows, locals(), recipe=recipe)


@without_sizes
def variance(
    rows: object,
    columns: Columns = None,
    *,
    by: By = None,
    unit: str | Unit | None = None,
    max_rows_per_unit: int | None = None,
    max_groups_per_unit: int | None = None,
    missing: Missing = "drop",
    epsilon: float = 1.0,
    delta: float | None = None,
    sampling: Sampling = "none",
    sample_size: float | None = None,
    ledger: Ledger | None = None,
    random_state: RandomState = None,
) -> Statistic:
    """Release the variance of each column, in squares of own units (days for dates).

    The arguments are those of `pais.mean`. As in pandas, the sum of squares is divided by n - 1.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> result = pais.variance(people, columns={"age": (18, 100)}, epsilon=1.0)
    >>> bool(100 < result.value < 1000)
    True
    """
    return StatisticSettings.released(rows, locals(), recipe=Variances())


@without_sizes
def histogram(
    rows: object,
    columns: Columns = None,
    bins: int | Sequence[float] | Mapping[str, object] = 10,
    *,
    by: By = None,
    unit: str | Unit | None = None,
    max_rows_per_unit: int | None = None,
    max_groups_per_unit: int | None = None,
    missing: Missing = "drop",
    epsilon: float = 1.0,
    delta: float | None = None,
    sampling: Sampling = "none",
    sample_size: float | None = None,
    ledger: Ledger | None = None,
    random_state: RandomState = None,
) -> Statistic:
    """Release the number of cells in each bin of each column, or in each category.

    Parameters
    ----------
    rows : table, path, Spark DataFrame or source
        The table.
    columns : mapping, Schema
        As in `pais.mean`. Values outside the bounds count in the first or last bin. The last bin holds its upper edge
        too, as in NumPy, although all labels of an index of pandas look the same.
    bins : int, sequence of float, or mapping
        Number of bins of equal width between the bounds, or their edges from the lower to the upper bound; a mapping
        states this for each column. Other arguments are those of `pais.mean`; `unit` works as in `pais.sum`, and rows
        are counted.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> result = pais.histogram(people, columns={"age": (20, 100)}, bins=4, epsilon=1.0)
    >>> len(result.value)
    4
    """
    return TotalSettings.released(rows, locals(), recipe=Histogram(bins=bins))


@without_sizes
def covariance(
    rows: object,
    columns: Columns = None,
    *,
    by: By = None,
    unit: str | Unit | None = None,
    max_rows_per_unit: int | None = None,
    max_groups_per_unit: int | None = None,
    missing: Missing = "drop",
    epsilon: float = 1.0,
    delta: float | None = None,
    sampling: Sampling = "none",
    sample_size: float | None = None,
    ledger: Ledger | None = None,
    random_state: RandomState = None,
) -> Statistic:
    """Release the covariances of all pairs of columns, with the variances on the diagonal.

    The arguments are those of `pais.mean`, except that a row with a missing value is left out. The matrix is symmetric;
    noise can make its smallest eigenvalues negative.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> result = pais.covariance(people, columns={"age": (18, 100), "premium": bool}, epsilon=1.0)
    >>> result.value.shape
    (2, 2)
    """
    return StatisticSettings.released(rows, locals(), recipe=Covariance(), by_cell=False)


@without_sizes
def describe(
    rows: object,
    columns: Columns = None,
    *,
    statistics: str | Sequence[str] = DESCRIBED,
    by: By = None,
    unit: str | Unit | None = None,
    max_rows_per_unit: int | None = None,
    max_groups_per_unit: int | None = None,
    missing: Missing = "drop",
    epsilon: float = 1.0,
    delta: float | None = None,
    sampling: Sampling = "none",
    sample_size: float | None = None,
    ledger: Ledger | None = None,
    random_state: RandomState = None,
) -> Statistic:
    """Release several statistics of each column in one release: by default count, mean, deviation and quartiles.

    All groups are the same, and so are the counts behind the statistics, which share one price.

    Parameters
    ----------
    rows, columns, by, unit, missing, epsilon, delta, sampling, sample_size, ledger, random_state
        As in `pais.mean`.
    statistics : str or sequence of str
        Some of "count", "sum", "mean", "variance", "std", "25%", "50%" or "median", and "75%". Fewer statistics have
        less noise: with "count", "sum" and "mean" it is that of a mean alone. The count is that of cells that are not
        missing. A sum over all rows of people needs `pais.sum`.

    Notes
    -----
    Quartiles are read from a histogram of 64 bins between the bounds. They are missing for booleans and categories,
    whose mean is a share.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> result = pais.describe(people, columns={"age": (18, 100), "premium": bool}, epsilon=1.0)
    >>> result.value.index.tolist()
    ['count', 'mean', 'std', '25%', '50%', '75%']
    """
    asked = (statistics,) if isinstance(statistics, str) else tuple(statistics)
    if "sum" in asked and (unit is not None or getattr(rows, "unit", None) is not None):
        raise ArgumentError(
            "statistics has a sum, but people count once here, whatever number of rows they have. Leave it out, and "
            "call pais.sum for the total over all rows of people."
        )
    return StatisticSettings.released(rows, locals(), recipe=Description(statistics=asked))


@without_sizes
def top(
    rows: object,
    by: By = None,
    k: int = 10,
    *,
    unit: str | Unit | None = None,
    max_groups_per_unit: int | None = None,
    missing: Missing = "drop",
    epsilon: float = 1.0,
    delta: float | None = None,
    ledger: Ledger | None = None,
    random_state: RandomState = None,
) -> Statistic:
    """Release the most frequent names of a column, with the number of rows of each, or of people with a `unit`.

    The counts are those of `pais.count` and `pais.count_people`, the highest first. The names need no list.

    Parameters
    ----------
    rows : table, path, Spark DataFrame or source
        The table.
    by : str, sequence of str or mapping
        The column with the names, as in `pais.mean`. With several columns, their combinations are counted.
    k : int
        Number of names. There are fewer if fewer are found.
    unit, max_groups_per_unit, missing, epsilon, delta, ledger, random_state : optional
        As in `pais.count_people`. Without a `unit`, rows are counted.

    Notes
    -----
    A high count was chosen, and may owe this to noise. So intervals are wider than those of `pais.count`: of the k
    intervals at a level, about this share holds the true number.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> len(pais.top(people, "region", k=3, unit="customer_id", epsilon=1.0).value)
    3
    """
    k = count_of("k", k)
    stated = {**locals(), "columns": None, "max_rows_per_unit": None, "sampling": "none", "sample_size": None}
    selection = Selection.of(rows, None, by, unit)
    if not selection.by:
        raise ArgumentError("top needs the column with the names. Pass it as by, such as by='ward'.")
    has_people = unit is not None or getattr(selection.rows, "unit", None) is not None
    recipe = PeopleCounts() if has_people else Counts()
    return most_frequent(TotalSettings.released(selection, stated, needs_columns=False, recipe=recipe), k)
