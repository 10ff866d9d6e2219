"""Whether the box sampler fits a model, judged from its structure alone."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable, Mapping
from dataclasses import replace
from pytensor.graph.basic import Variable
from pymc_private.analysis import Interval as Bounds, bounds
from pymc_private.errors import Unsupported
from pymc_private.models.record_graph__clipped import unclipped
from pymc_private.certificates.log_concave import concavity
from pymc_private.certificates.linear_predictors__kinks import NotConcave
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.models.private_model import PrivateModel
from pymc_private.certificates.record_bounds__row_bounds import RowBounds
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE
from pymc_private.privacy.rounding__printing import counted
from pymc_private.samplers.rejection__boxes import LARGEST_DIMENSION
from pymc_private.samplers.randomness import has_grid

MOST_RECORDS = {5: 100_000, 6: 20_000}
"""Records up to which so many parameters are drawn; fewer parameters, any number."""
MOST_CELLS = 256
"""Most cells tried to bound the prior density, or a clipped record."""
MOST_BLIND = 7.0
"""Nats between envelope and density that no cutting of cells closes: about 1,100 trials a draw."""


def refuse_boxes(private: PrivateModel) -> None:
    """Refuse a model that the box sampler would not finish. Reads no data.

    Parameters
    ----------
    private : PrivateModel

    Raises
    ------
    Unsupported
        Too many parameters, discrete or simplex parameters, an infinite box, or a clipped
        likelihood of which intervals know too little for a draw ever to end.
    """
    _refuse_many(private)
    for rv in private.base.free_RVs:
        _refuse_odd_box(private, rv)
    _refuse_odd_prior(private)
    _refuse_blind_envelope(private)


def _refuse_many(private: PrivateModel) -> None:
    """By the number of parameters, and of records where it is public."""
    size = sum(int(np.prod(shape)) for shape in private.shapes.values())
    if size > LARGEST_DIMENSION:
        raise Unsupported(
            "the box sampler does not cover this many parameters",
            got=counted(size, "scalar parameter"),
            allowed=f"at most {LARGEST_DIMENSION}",
            do="fix or merge some parameters, or write a log-concave model",
        )
    most = MOST_RECORDS.get(size)
    if most is None:
        return
    if private.neighbors == ADD_REMOVE:
        raise Unsupported(
            "how long the box sampler takes depends on the number of records, which is protected",
            got=f"{size} scalar parameters under add/remove",
            allowed="at most 4",
            do="neighbors='substitute', or fewer parameters",
        )
    try:
        concavity(private)
    except NotConcave as reason:
        raise Unsupported(
            "the box sampler might not finish: five or six parameters it draws where the posterior "
            "is proved to be log-concave",
            got=str(reason),
            allowed="at most 4 parameters of any shape",
            do="fix or merge some parameters, or another sampler",
        ) from None
    if private.n > most:
        raise Unsupported(
            "the box sampler would take hours for so many records and parameters",
            got=f"{private.n} records, {size} scalar parameters",
            allowed=f"at most {most} records with {size} parameters",
            do="fewer parameters, or another sampler",
        )


def _refuse_odd_box(private: PrivateModel, rv: Variable) -> None:
    """Continuous variables only, each in a box of many doubles."""
    box = private.box[rv.name]
    if not str(rv.type.dtype).startswith("float") or box.within is not None:
        raise Unsupported(
            f"the box sampler cannot draw '{rv.name}'",
            got="a discrete or simplex-valued parameter",
            allowed="continuous parameters with an interval each",
            do="write the model with free continuous parameters (a Beta probability instead of "
            "a two-cell Dirichlet; marginalize discrete ones)",
        )
    if not box.is_finite:
        raise Unsupported(
            f"the box sampler needs ends for '{rv.name}'",
            got="an unbounded parameter",
            allowed="every parameter within a finite box",
            do="pmp.trim(private, mass=0.99), or box={...}",
        )
    if not has_grid(box.lower, box.upper):
        raise Unsupported(
            f"the box of '{rv.name}' is too narrow or too wide for double precision",
            got=f"[{np.min(box.lower):.6g}, {np.max(box.upper):.6g}]",
            allowed="finite width, more than about 2**-42 of the largest end",
            do="shift or scale the parameter in the model",
        )


def _refuse_odd_prior(private: PrivateModel) -> None:
    """Intervals must bound the prior on fine enough cells, or the envelope would never close.

    Nor would a draw ever end where the prior is zero on the whole region.
    """
    prior, parameters = private.graph.prior, private.graph.parameters
    shared = {v: Bounds.point(v.get_value()) for v in public_data([prior])}

    def upper(box: dict[str, Bounds]) -> float:
        given = {parameters[name]: b for name, b in box.items()} | shared
        return float(bounds([prior], given)[prior].upper)

    bounded, zero = _is_bounded(private.box, upper)
    if zero or not bounded:
        raise Unsupported(
            f"the prior density is {'zero' if bounded else 'not bounded'} on the region",
            got=", ".join(private.box),
            allowed="regions where intervals bound the prior density from above, not all zero",
            do="trim away from the edge where the prior density is infinite, to where it is not "
            "zero",
        )


def _refuse_blind_envelope(private: PrivateModel) -> None:
    """Where intervals know of a record no more than its clip, cutting cells closes nothing."""
    clip = private.graph.clip
    if clip is None:
        return
    clipped = sum(w.count for w in private.graph.windows) or private.n
    power = float(private.power)
    gap = power * clipped * (clip[1] - clip[0])
    protected = private.neighbors == ADD_REMOVE  # then neither verdict nor words may tell n
    if gap <= MOST_BLIND and not protected:
        return
    graph = replace(private.graph, record=unclipped(private.graph), clip=None)
    rows = RowBounds(graph, private.sources, private.n)

    def upper(box: dict[str, Bounds]) -> float:
        return float(np.max(rows.trail(box)[graph.record].upper))

    if not _is_bounded(private.box, upper)[0]:
        raise Unsupported(
            "the box sampler would hardly ever accept a draw of this clipped likelihood",
            got="somewhere on the region nothing but the clip is known of a record"
            + ("" if protected else f": {gap:.4g} nats for {clipped} of them at power {power:.4g}"),
            allowed=f"log-likelihoods that intervals bound, or at most {MOST_BLIND:g} nats",
            do="trim away from the edge (a scale of zero), write the likelihood with Ops that have "
            "an interval rule, or narrow the clip; a smaller budget per draw tempers more",
        )


def _is_bounded(
    whole: Mapping[str, Bounds], upper: Callable[[dict[str, Bounds]], float]
) -> tuple[bool, bool]:
    """Whether upper ends are finite on fine enough cells of a box, and whether all are -inf."""
    queue, zero = [dict(whole)], True
    for _ in range(MOST_CELLS):
        if not queue:
            break
        box = queue.pop()
        top = upper(box)
        zero = zero and top == -np.inf
        if not top < np.inf:
            queue += _halves(box, whole)
    return not queue, zero


def _halves(box: dict[str, Bounds], whole: Mapping[str, Bounds]) -> list[dict[str, Bounds]]:
    """Two halves of a box, across the coordinate that is widest as a share of the whole."""
    widths = {
        (name, i): (b.upper[i] - b.lower[i]) / (whole[name].upper[i] - whole[name].lower[i])
        for name, b in box.items()
        for i in np.ndindex(np.shape(b.lower))
    }
    name, index = max(widths, key=lambda key: widths[key])
    lower, upper = np.array(box[name].lower), np.array(box[name].upper)
    middle = (lower[index] + upper[index]) / 2.0
    left, right = upper.copy(), lower.copy()
    left[index], right[index] = middle, middle
    return [box | {name: Bounds(lower, left)}, box | {name: Bounds(right, upper)}]
