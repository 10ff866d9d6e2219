"""The `certify` function: a proved bound on how much one record can change the log-likelihood.

Records that the model reads in the same way form a record class: one class for all records, or
several along a sequence. The range R of each class is bounded by interval analysis with branch
and bound, and by closed forms where the model has a clip, Theta_L or a metric (T1, T24, T25);
the greatest is the certified one. Where no bound is finite, the refusal names the cause and a
cure.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from pytensor.graph.basic import Variable

from pymc_private.analysis import Trail
from pymc_private.analysis.branch_and_bound import Effort
from pymc_private.analysis.traversal import without_tracebacks
from pymc_private.certificates.certificate import (
    RANGE_THEOREMS,
    Certificate,
    scaled_up,
    untempered_fingerprint,
)
from pymc_private.certificates.clip import clip_claims, clipped_range
from pymc_private.certificates.conjugate import ConjugatePair, conjugate_pair
from pymc_private.certificates.lipschitz.region import ThetaL, boundary_points
from pymc_private.certificates.lipschitz.tail import proved_tail
from pymc_private.certificates.log_concave import LazyConcavity, lazy_concavity
from pymc_private.certificates.metric_range import metric_range
from pymc_private.certificates.range_bound import (
    SEARCH_EFFORT,
    AnyRecordBounds,
    Progress,
    RangeBound,
    bound_range,
    range_at_points,
    searched_range,
    searched_range_per_distance,
)
from pymc_private.certificates.record_bounds import (
    Neighborhood,
    NeighborhoodBounds,
    RecordBounds,
    neighborhoods,
)
from pymc_private.certificates.restrict import (
    edge_advice,
    point_where_entries_touch,
    trim_advice,
)
from pymc_private.certificates.terms import float32_claims
from pymc_private.errors import NotCertified, suggest_arguments
from pymc_private.models.compat import progress_bar
from pymc_private.models.data_variables import Source, array_candidates
from pymc_private.models.domains import Categories, Domain
from pymc_private.models.private_model import PrivateModel, require_private_model
from pymc_private.models.record_likelihood import SingleRecord, single_record
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.rounding import float_up
from pymc_private.privacy.validation import check_nonnegative

FIRST_SEARCH_EFFORT = 12.0
"""Effort of a first search, in walks."""

MOST_SECONDS = 1e9
"""No search is given more."""


@suggest_arguments
def certify(
    private: PrivateModel,
    *,
    tolerance: float = 0.05,
    seconds: float | None = None,
    progressbar: bool = True,
) -> Certificate:
    """Bound the range of one record's log-likelihood by intervals over the model's graph.

    Reads no data. R is a maximum over two records and two parameter points; branch and bound with
    interval slopes brackets it (`certificates.range_objective`). What a parameter does to every
    record alike cancels.

    Parameters
    ----------
    private : PrivateModel
        Trimmed or not.
    tolerance : float
        Stop refining once the bound is within this fraction of the searched lower bound.
    seconds : float, optional
        Stop refining after this long. By default the effort is counted, not timed, so that the
        same model gives the same bound, and the same plan, at each run.
    progressbar : bool
        Show a bar if it takes more than a second.

    Returns
    -------
    Certificate

    Raises
    ------
    NotCertified
        No finite bound: `.blame` names the Op and the variables, `.cure` what would help.

    References
    ----------
    Theory T1 (Dimitrakakis et al. 2017, Theorem 8.1, sharpened; McSherry and Talwar 2007), T24 for
    the cell bound, T25 for clipped models; Moore (1966) for interval inclusion.
    """
    private = require_private_model(private)
    start = time.perf_counter()
    check_nonnegative(seconds=seconds if seconds is not None else 0)
    deadline = math.inf if seconds is None else start + float(min(seconds, MOST_SECONDS))
    with without_tracebacks():
        return _build_certificate(private, tolerance, start, deadline, progressbar)


def _build_certificate(
    private: PrivateModel, tolerance: float, start: float, deadline: float, progressbar: bool
) -> Certificate:
    classes = record_classes(private)
    normal = lazy_concavity(private, classes[0].record)
    trails = [each.rows.trail(private.box) for each in classes]
    described = zip(classes, trails, strict=True)
    lines = [line for each, trail in described for line in (*each.words, *trail.describe())]
    pair = None
    try:
        found = _greatest_range(private, classes, trails, tolerance, deadline, progressbar)
    except NotCertified as error:
        found, pair = RangeBound(math.inf, 0.0), _pair_without_range(private, normal, error)
    coupling = coupling_in_words(classes)
    scale = private.power * private.records_per_unit
    return Certificate(
        range=scaled_up(found.upper, scale),
        searched=min(scaled_up(found.upper, scale), found.found * float(scale)),
        power=private.power,
        neighbors=private.neighbors,
        trail=tuple(lines),
        claims=(*private.claims, *clip_claims(private), *float32_claims(private)),
        where=found.where,
        is_relaxed=found.is_relaxed,
        milliseconds=(time.perf_counter() - start) * 1e3,
        tolerance=tolerance,
        model=untempered_fingerprint(private),
        theorem=_range_theorems(private, coupling),
        coupling=coupling,
        lipschitz=None if private.graph.windows else proved_tail(private),
        gaussian=normal,
        pair=pair,
    )


def _greatest_range(
    private: PrivateModel,
    classes: list[RecordClass],
    trails: list[Trail],
    tolerance: float,
    deadline: float,
    progressbar: bool,
) -> RangeBound:
    """The greatest range over all record classes (T1, T24)."""
    found = RangeBound(0.0, 0.0)
    with progress_bar(progressbar) as progress:
        for records, trail in zip(classes, trails, strict=True):
            own = range_of_class(
                private, records, trail, tolerance, deadline, progress, found.upper
            )
            found = own.greater(found)
    return found


def _pair_without_range(
    private: PrivateModel, normal: LazyConcavity, error: NotCertified
) -> ConjugatePair | None:
    """What bounds draws without a range: mu (T7, then None) or the dominating pair (T13)."""
    concave = normal.concavity
    if concave is not None and math.isfinite(concave.mu(private.power)):
        return None
    pair = conjugate_pair(private)
    if pair is None:
        raise _refusal_of_both(error, normal) from None
    return pair


def _refusal_of_both(error: NotCertified, normal: LazyConcavity) -> NotCertified:
    """The refusal of a range, with why there is no Gaussian bound either."""
    reason = normal.refusal or "it is unbounded"
    return NotCertified(
        f"{error.problem}, nor on its gradient ({reason})", blame=error.blame, cure=error.cure
    )


def _range_theorems(private: PrivateModel, coupling: str) -> str:
    """Numbers of the theorems a range rests on."""
    limited = _range_on_theta_l(private) is not None
    more = [*(["T24"] if coupling or limited else []), *(["T25"] if private.graph.clip else [])]
    more += ["T39"] if private.score is not None else []
    return ", ".join([RANGE_THEOREMS, *more])


def range_of_class(
    private: PrivateModel,
    records: RecordClass,
    trail: Trail,
    tolerance: float,
    deadline: float,
    progress: Progress,
    floor: float,
) -> RangeBound:
    """Bound R of one record class at power 1, by every method that applies (T1, T24, T25).

    `trail` holds the bounds of the class's rows on the whole box. `floor` is proved for other
    classes: it is enough to prove that this one has no more. The rest is as for `bound_range`.

    Raises
    ------
    NotCertified
        No method gives a finite bound.
    """
    rows, cap = records.rows, _closed_form_bound(private, records)
    plain = cap is None and private.metric is None
    if plain and _is_surely_infinite(private, rows, trail):
        raise not_certified(private, rows)  # no cutting of the box would help
    known = math.inf if cap is None else float_up(cap)
    # Intervals and searches are over the whole box, where the bound on Theta_L need not hold.
    start = known if private.theta_l is None else math.inf
    found = _range_by_intervals(private, records, tolerance, deadline, progress, floor, start)
    found = replace(found, upper=min(found.upper, known))
    if not math.isfinite(found.upper):
        raise not_certified(private, rows)
    searched = _searched_on_region(private, records, found.found)
    return replace(found, found=min(found.upper, searched))


def _closed_form_bound(private: PrivateModel, records: RecordClass) -> Fraction | None:
    """The bound of R by a clip (T25) or Theta_L (T24), whatever intervals prove; else None."""
    if private.metric is not None:  # neither is about distances
        return None
    bounds = clipped_range(private, len(records.readers)), _range_on_theta_l(private)
    return min((bound for bound in bounds if bound is not None), default=None)


def _range_on_theta_l(private: PrivateModel) -> Fraction | None:
    """2 L, where the region is Theta_L of the model's own record graph (T24)."""
    theta = private.theta_l
    return theta.range_of(private.graph.record) if isinstance(theta, ThetaL) else None


def _range_by_intervals(
    private: PrivateModel,
    records: RecordClass,
    tolerance: float,
    deadline: float,
    progress: Progress,
    floor: float,
    known: float,
) -> RangeBound:
    """R for one record, or per unit of distance where there is a metric."""
    rows = records.rows
    if private.metric is None:
        return bound_range(
            private, rows, records.record, tolerance, deadline, progress, floor, known
        )
    found = metric_range(private, private.metric, tolerance, deadline, progress)
    rows.effort = Effort(SEARCH_EFFORT, deadline)
    searched = searched_range_per_distance(rows, private.box, private.metric.between)
    return RangeBound(found.upper, min(found.upper, max(found.found, searched)))


def _searched_on_region(private: PrivateModel, records: RecordClass, in_box: float) -> float:
    """The searched lower bound: that in the box, or on Theta_L where that is the region."""
    if not isinstance(private.theta_l, ThetaL):
        return in_box
    points = boundary_points(private, private.theta_l)
    return range_at_points(records.rows, points, private.neighbors == ADD_REMOVE)


@dataclass(frozen=True, eq=False)
class RecordClass:
    """Records that are read in the same way.

    Parameters
    ----------
    rows : RecordBounds or NeighborhoodBounds
    record : SingleRecord or None
        The log-likelihood of all that reads one of them; None where rows differ.
    readers : tuple of str
        The factor of each factor row that reads one of them.
    words : tuple of str
        The same in words, where it is more than the record's own row.
    """

    rows: AnyRecordBounds
    record: SingleRecord | None
    readers: tuple[str, ...]
    words: tuple[str, ...] = ()


def record_classes(private: PrivateModel) -> list[RecordClass]:
    """The classes of records that a model reads in the same way, the greatest range first."""
    graph, sources = private.graph, private.sources
    if not graph.windows:
        record = single_record(graph, sources, private.n, private.shapes)
        return [RecordClass(RecordBounds(graph, sources, private.n), record, ("",))]
    found = []
    for hood in neighborhoods(graph, sources, private.n, private.shapes):
        rows = NeighborhoodBounds(hood.record, sources)
        rows.effort = Effort(FIRST_SEARCH_EFFORT)
        searched = searched_range(rows, private.box)
        words = (_class_in_words(hood),)
        found.append((searched, RecordClass(rows, hood.record, hood.readers, words)))
    # The greatest first: of the others it is enough to prove that they are no greater.
    return [each for _, each in sorted(found, key=lambda pair: -pair[0])]


def coupling_in_words(classes: Sequence[RecordClass]) -> str:
    """How many factor rows read a record, if it is more than its own."""
    most = max((each.readers for each in classes), key=len)
    if len(most) == 1:
        return ""
    rows = _rows_in_words(most)
    return f"each record is read by up to {rows}; what these read besides is any, the same"


def _class_in_words(hood: Neighborhood) -> str:
    many = "each" if hood.count > 1 else "it"
    which = f"record {hood.first}" if hood.count == 1 else f"{hood.count} records"
    return f"{which}: {many} is read by {_rows_in_words(hood.readers)}"


def _rows_in_words(readers: tuple[str, ...]) -> str:
    """2 factor rows (2 of y)."""
    counts = Counter(readers)
    parts = ", ".join(f"{count} of {name}" for name, count in counts.items())
    return f"{len(readers)} factor row{'s' if len(readers) > 1 else ''} ({parts})"


def _is_surely_infinite(private: PrivateModel, rows: AnyRecordBounds, trail: Trail) -> bool:
    """Whether a search is vain: in an infinite box, or where ordered entries may be equal."""
    if unbounded_parameters(private, trail, rows.output):
        return True
    point = point_where_entries_touch(private)
    return point is not None and bool(rows.trail(point).culprits(rows.output))


def unbounded_parameters(private: PrivateModel, trail: Trail, output: Variable) -> list[str]:
    """Parameters with an infinite box that by themselves make the likelihood infinite."""
    names = {culprit.op for culprit in trail.culprits(output)}
    return [name for name, box in private.box.items() if name in names and not box.is_finite]


def not_certified(private: PrivateModel, rows: AnyRecordBounds) -> NotCertified:
    """The refusal of an infinite bound: what made it infinite, and what would cure it."""
    too_wide = domains_beyond_support(private)
    if too_wide:
        return _impossible_values(too_wide)
    trail = rows.trail(private.box)
    culprits = trail.culprits(rows.output)
    known = [culprit for culprit in culprits if culprit.reason != "no rule"]
    names = sorted({name for culprit in known for name in culprit.reads})
    parameters = [name for name in names if name in private.box]
    unbounded = [name for name in parameters if not private.box[name].is_finite]
    # A neighbor of a record is one more entry of the same variable: "y[-1]" is of y.
    sources = {s.name for s in private.sources}
    read = [name for name in names if name not in private.box]
    data = sorted({v if v in sources else v.rsplit("[", 1)[0] for v in read})
    cures = []
    if len(known) < len(culprits):
        cures.append("clip each record's log-likelihood: pmp.clip(private, lower, upper)")
    if unbounded:
        cures.append(trim_advice(private, unbounded))
    elif parameters:
        cures.append(edge_advice(private, parameters))
    if data:
        cures.append(f"declare a smaller domain for {', '.join(data)}")
    return NotCertified(
        "no finite bound on one record's log-likelihood is proved",
        blame=tuple(str(culprit) for culprit in culprits),
        cure="; or ".join(cures) or "write this part of the likelihood with Ops that have a rule",
    )


def domains_beyond_support(private: PrivateModel) -> list[tuple[Source, Domain]]:
    """Variables whose domain holds values of probability 0, with what their likelihood allows.

    They are not refused at once: clipped log-likelihoods are finite there too.
    """
    implied = {c.name: c.implied for c in array_candidates(private.base)}
    pairs = ((s, implied.get(s.name)) for s in private.sources)
    return [(s, allowed) for s, allowed in pairs if allowed is not None and _is_wider(s, allowed)]


def _is_wider(source: Source, allowed: Domain) -> bool:
    """Whether the domain holds more than the whole numbers that a likelihood allows.

    PyMC cuts the fraction off a number that it observes as a whole one.
    """
    if not isinstance(allowed, Categories):
        return False
    if isinstance(source.domain, Categories):
        return not set(np.trunc(source.domain.values)) <= set(allowed.values)
    domain = source.domain.bounds(source.row_shape)
    first, last = (np.ceil, np.floor) if source.is_whole else (np.trunc, np.trunc)
    low, high = np.min(first(domain.lower)), np.max(last(domain.upper))
    return bool(low < allowed.values[0] or high > allowed.values[-1])


def _impossible_values(too_wide: list[tuple[Source, Domain]]) -> NotCertified:
    names = ", ".join(source.name for source, _ in too_wide)
    return NotCertified(
        "no finite bound on one record's log-likelihood is proved: a record could take a value "
        "that its likelihood gives probability 0",
        blame=tuple(f"{s.name} in {s.domain}, of which {a} is possible" for s, a in too_wide),
        cure=f"leave the domain of {names} out: what the likelihood allows is known; or clip each "
        "record's log-likelihood: pmp.clip(private, lower, upper)",
    )
