"""Log-concave posteriors: the constants of T7 (Gaussian privacy) and T21 (proximal sampling).

-log posterior = -log prior - w sum_i log p(x_i | theta), over a convex region. If the prior is
strongly log-concave with precision P, and every record's log-likelihood concave, then -log
posterior is P-strongly convex for every dataset, and one exact draw is mu-GDP with
mu = w sup |P^(-1/2)(grad log p(x|.) - grad log p(y|.))| (Gopi, Lee and Liu 2022; T7, T22).
"""

from __future__ import annotations

import numpy as np
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary
from pytensor.graph.basic import Variable
from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis.traversal__rebuild import untraced
from pymc_private.errors import NotCertified
from pymc_private.models.record_likelihood__columns import columns_of
from pymc_private.certificates.curvature import Curves, Factor
from pymc_private.certificates.linear_predictors import coefficients
from pymc_private.certificates.linear_predictors__kinks import NotConcave
from pymc_private.certificates.log_concave__log_concave import Concavity
from pymc_private.certificates.record_gradient__precision import lower_bound
from pymc_private.certificates.record_gradient import Predictor
from pymc_private.certificates.log_concave__prior_curvature import prior_curvature, prior_value
from pymc_private.models.record_likelihood import Column, Role
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.models.private_model import PrivateModel
from pymc_private.certificates.record_bounds__public_rows import boxes_around, distinct_rows
from pymc_private.models.record_graph import RecordGraph
from pymc_private.models.record_likelihood__single_record import SingleRecord, single_record
from pymc_private.models.distributions import BOXABLE, ORDERED, transform_name
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE

MOST_PARAMETERS = 2000


def concavity(private: PrivateModel, *, flat: bool = False) -> Concavity:
    """Prove that the posterior is strongly log-concave, whatever the records, and how strongly.

    Reads no data.

    Parameters
    ----------
    private : PrivateModel
    flat : bool
        Whether the prior need not be strongly log-concave: for samplers, not for T7.

    Returns
    -------
    Concavity
        Of the untempered likelihood.

    Raises
    ------
    NotConcave
        Saying which parameters, and why.
    """
    found = gaussian(private, flat=flat)
    if found.concavity is None:
        raise NotConcave(found.refusal)
    return found.concavity


def gaussian(
    private: PrivateModel, record: SingleRecord | None = None, *, flat: bool = False
) -> Gaussian:
    """What `concavity` answers, without proving it yet.

    Parameters
    ----------
    private : PrivateModel
    record : SingleRecord, optional
        Of that model, where it is at hand.
    flat : bool
        See `concavity`.
    """
    try:
        _refuse_forms(private)
    except NotConcave as reason:
        return Gaussian(reason)
    asked = _ASKED.setdefault(private.graph, {})
    key = (*_question(private), flat)
    if key not in asked:
        asked[key] = Gaussian(_posterior(private, record, flat=flat))
    return asked[key]


class Gaussian:
    """The constants of T7 of one posterior, proved when they are first asked for.

    To prove them takes as long as R does. The question is put in full when this is made, without
    data: whatever becomes of the model, it is the certified one that is answered for.

    Parameters
    ----------
    known : Posterior, Concavity or NotConcave
        The question, or its answer.
    """

    def __init__(self, known: Posterior | Concavity | NotConcave) -> None:
        self._known = known

    @cached_property
    def _answer(self) -> Concavity | NotConcave:
        known = self._known
        if isinstance(known, Posterior):
            try:
                with untraced():
                    known = _proved(known)
            except NotConcave as reason:
                known = reason
            except NotCertified as reason:
                known = NotConcave(reason.problem)
            self._known = known  # the graphs may go
        return known

    @property
    def concavity(self) -> Concavity | None:
        """What is proved, or None."""
        return self._answer if isinstance(self._answer, Concavity) else None

    @property
    def refusal(self) -> str:
        """If nothing is proved: why not."""
        return "" if isinstance(self._answer, Concavity) else str(self._answer)

    def __reduce__(self) -> tuple:
        # Graphs may hold local functions; answers are numbers.
        return Gaussian, (self._answer,)


_ASKED: WeakKeyDictionary[RecordGraph, dict[tuple, Gaussian]] = WeakKeyDictionary()
"""Answers of models that are still around: `certify` is asked for each power and sampler anew."""


def _question(private: PrivateModel) -> tuple:
    """All that an answer rests on besides the record's graph."""
    ends = [
        (name, np.asarray(end, float).tobytes())
        for name, b in private.box.items()
        for end in (b.lower, b.upper)
    ]
    held = public_data([private.graph.record, private.graph.prior])  # `set_data` may change them
    values = [np.asarray(v.get_value()) for v in held]
    public = tuple((v.dtype.str, v.shape, v.tobytes()) for v in values)
    return (tuple(ends), public, private.n, private.neighbors, private.records_per_unit)


@dataclass(frozen=True, eq=False)
class Posterior:
    """All that is asked about: one record's density and the prior, with public data as numbers.

    Parameters
    ----------
    record : SingleRecord
    prior : Variable, scalar
        Log density, of the record's parameters.
    columns : sequence of Column
        What the density reads besides the parameters; no data.
    box : dict of str to Bounds
        Of the parameters.
    shapes : dict of str to tuple of int
        Of the parameters.
    neighbors : str
    records_per_unit : int
    n : int or None
        Number of records, where it is public.
    flat : bool
        Whether the prior need not be strongly log-concave.
    """

    record: SingleRecord
    prior: Variable
    columns: Sequence[Column]
    box: Mapping[str, Bounds]
    shapes: Mapping[str, tuple[int, ...]]
    neighbors: str
    records_per_unit: int
    n: int | None
    flat: bool


def _posterior(
    private: PrivateModel, record: SingleRecord | None, *, flat: bool
) -> Posterior | NotConcave:
    """The question about a model."""
    record = record or single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None:
        return NotConcave("records are computed differently, by more than public rows of data")
    columns = columns_of(record, private.sources, private.box, ())
    return Posterior(
        record=record,
        prior=prior_value(private, record),
        columns=[c for c in columns if c.role is not Role.POINT],
        box=dict(private.box),
        shapes=dict(private.shapes),
        neighbors=private.neighbors,
        records_per_unit=private.records_per_unit,
        n=private.n if private.neighbors != ADD_REMOVE else None,
        flat=flat,
    )


def _proved(asked: Posterior) -> Concavity:
    """See `concavity`."""
    record, columns = asked.record, asked.columns
    rows = _public_rows(record, columns)
    factor = Factor(record.value, record.parameters, asked.box, columns)
    factor.refuse_meeting()  # most models that are not concave end here, for little
    prior = prior_curvature(asked.prior, record.parameters, asked.box, flat=asked.flat)
    found = factor.curves(rows)
    predictors = _predictors(found, record, columns, rows)
    return Concavity(
        shapes=asked.shapes,
        prior_precision=prior.lower,
        prior=prior,
        sure=_sure(predictors, len(prior.lower), asked.n),
        predictors=predictors,
        neighbors=asked.neighbors,
        records_per_unit=asked.records_per_unit,
        n=asked.n,
    )


def _refuse_forms(private: PrivateModel) -> None:
    """Regions that are not convex boxes, neighbors and likelihoods that T22 does not speak of."""
    if private.graph.clip is not None:
        raise NotConcave("a clipped log-likelihood is not concave")
    if private.graph.windows:
        raise NotConcave("a record of a sequence is read by several factor rows")
    if private.theta_l is not None:
        raise NotConcave("the prior is restricted to a set that need not be convex")
    if private.metric is not None:
        raise NotConcave("neighbors at a distance have no Gaussian bound")
    for name, bounds in private.box.items():
        if transform_name(private.base, private.base[name]) not in {*BOXABLE, ORDERED}:
            raise NotConcave(f"the transform of '{name}' restricts it to a set that is not known")
        if bounds.within is not None:
            raise NotConcave(f"'{name}' is not free within its box")
        if not private.graph.parameters[name].type.dtype.startswith("float"):
            raise NotConcave(f"'{name}' is discrete")
    size = sum(int(np.prod(shape)) for shape in private.shapes.values())
    if size > MOST_PARAMETERS:
        raise NotConcave(f"{size} parameters are more than {MOST_PARAMETERS}")


def _public_rows(record: SingleRecord, columns: Sequence[Column]) -> np.ndarray | None:
    """Distinct values of what is public row by row; none if boxes around them would be needed."""
    shared = [c for c in columns if c.role is Role.SHARED]
    if not shared:
        return None
    rows = distinct_rows([record.public[c.variable] for c in shared])
    low, high = boxes_around(rows)
    return rows if low is high else None


def _predictors(
    found: Curves, record: SingleRecord, columns: Sequence[Column], rows: np.ndarray | None
) -> tuple[Predictor, ...]:
    made, start = [], 0
    for core in found.predictors:
        part = slice(start, start + int(np.prod(core.type.shape)))
        start = part.stop
        a = coefficients([core], record.parameters, columns, rows)
        low, high, gap, smooth, sure = (
            array[part] for array in (found.low, found.high, found.gap, found.smooth, found.sure)
        )
        made.append(Predictor(a, low, high, gap, smooth, sure, found.softmax))
    return tuple(made)


def _sure(predictors: Sequence[Predictor], size: int, n: int | None) -> np.ndarray:
    """What n records add to the precision for certain: where a is the same for each of them."""
    total = np.zeros((size, size))
    for p in predictors if n is not None else ():
        a = p.coefficients
        if a.is_constant and p.softmax is None:
            total += n * lower_bound(a, p.sure)
    return total
