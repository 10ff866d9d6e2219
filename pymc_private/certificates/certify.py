"""certify: a proved bound on how much one record can change the log-likelihood."""

from __future__ import annotations

import math
import time
from pymc_private.analysis import Trail
from pymc_private.analysis.traversal__rebuild import untraced
from pymc_private.errors import NotCertified
from pymc_private.certificates.certificate import Certificate, THEOREM, fingerprint_of, times
from pymc_private.certificates.clip import claims_of_clip
from pymc_private.certificates.log_concave import Gaussian, gaussian
from pymc_private.certificates.conjugate__pair import ConjugatePair, conjugate_pair
from pymc_private.models.private_model__given import private_model
from pymc_private.certificates.certify__kinds import Kind, coupling_words, kinds_of_records
from pymc_private.certificates.lipschitz.tail import proved_tail
from pymc_private.certificates.certify__one_kind import range_of_kind
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.compat__progress import progress_bar
from pymc_private.certificates.range_bound__refine import Refined
from pymc_private.certificates.terms__short_floats import claims_of_short_floats

def certify(
    private: PrivateModel,
    *,
    tolerance: float = 0.05,
    seconds: float | None = None,
    progressbar: bool = True,
) -> Certificate:
    """Bound the range of one record's log-likelihood by intervals over the model's graph.

    Reads no data. R is a maximum over two records and two parameter points; branch and bound with
    interval slopes brackets it (`certificates.range_objective`). What a parameter does to every record alike
    cancels.

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
    private = private_model(private)
    start = time.perf_counter()
    deadline = math.inf if seconds is None else start + seconds
    with untraced():
        return _certified(private, tolerance, start, deadline, progressbar)


def _certified(
    private: PrivateModel, tolerance: float, start: float, deadline: float, progressbar: bool
) -> Certificate:
    kinds = kinds_of_records(private)
    normal = gaussian(private, kinds[0].record)
    trails = [kind.rows.trail(private.box) for kind in kinds]
    lines = [line for k, t in zip(kinds, trails, strict=True) for line in (*k.words, *t.describe())]
    try:
        found, pair = _range(private, kinds, trails, tolerance, deadline, progressbar), None
    except NotCertified as error:
        found, pair = Refined(math.inf, 0.0), _without_range(private, normal, error)
    coupling = coupling_words(kinds)
    scale = private.power * private.records_per_unit
    return Certificate(
        range=times(found.upper, scale),
        searched=min(times(found.upper, scale), found.found * float(scale)),
        power=private.power,
        neighbors=private.neighbors,
        trail=tuple(lines),
        claims=(*private.claims, *claims_of_clip(private), *claims_of_short_floats(private)),
        where=found.where,
        is_relaxed=found.is_relaxed,
        milliseconds=(time.perf_counter() - start) * 1e3,
        tolerance=tolerance,
        model=fingerprint_of(private),
        theorem=_theorem(private, coupling),
        coupling=coupling,
        lipschitz=None if private.graph.windows else proved_tail(private),
        gaussian=normal,
        pair=pair,
    )


def _range(
    private: PrivateModel,
    kinds: list[Kind],
    trails: list[Trail],
    tolerance: float,
    deadline: float,
    progressbar: bool,
) -> Refined:
    """The greatest range over all ways in which a record is read (T1, T24)."""
    found = Refined(0.0, 0.0)
    with progress_bar(progressbar) as progress:
        for kind, trail in zip(kinds, trails, strict=True):
            own = range_of_kind(private, kind, trail, tolerance, deadline, progress, found.upper)
            found = own.greater(found)
    return found


def _without_range(
    private: PrivateModel, normal: Gaussian, error: NotCertified
) -> ConjugatePair | None:
    """What prices draws without a range: mu (T7, then None) or the exact pair (T13)."""
    concave = normal.concavity
    if concave is not None and math.isfinite(concave.mu(private.power)):
        return None
    pair = conjugate_pair(private)
    if pair is None:
        raise _neither(error, normal) from None
    return pair


def _neither(error: NotCertified, normal: Gaussian) -> NotCertified:
    """The refusal of a range, with why there is no Gaussian bound either."""
    reason = normal.refusal or "it is unbounded"
    return NotCertified(
        f"{error.problem}, nor on its gradient ({reason})", blame=error.blame, cure=error.cure
    )


def _theorem(private: PrivateModel, coupling: str) -> str:
    """Numbers of the theorems a range rests on."""
    theta = private.theta_l
    limited = theta is not None and theta.range_of(private.graph.record) is not None
    more = [*(["T24"] if coupling or limited else []), *(["T25"] if private.graph.clip else [])]
    return ", ".join([THEOREM, *more])
