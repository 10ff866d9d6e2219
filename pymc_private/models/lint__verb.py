"""lint: warn the curator where a model looks computed from the data it is to protect."""

from __future__ import annotations

import numpy as np
import pandas as pd
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from html import escape
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.models import declare__intake
from pymc_private.models.lint__bambi import automatic_prior, fitted_transform
from pymc_private.models.lint__columns import copied, lagged, levels_learned, scaled_by_itself
from pymc_private.models.lint_facts import Facts, Finding, facts_of
from pymc_private.models.lint import constant_equals_statistic, range_baked_in
from pymc_private.models.private_model import PrivateModel

RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    constant_equals_statistic,
    automatic_prior,
    fitted_transform,
    scaled_by_itself,
    range_baked_in,
    levels_learned,
    lagged,
    copied,
)
"""Every rule; a new one is a function and a line here."""
FOR_THE_CURATOR = "for the curator: not to be published"
NOTHING = "nothing found, which proves nothing: only you know where the constants came from"


@dataclass(frozen=True, repr=False)
class LintReport(Sequence[Finding]):
    """What `lint` found, a sequence; for the curator: not to be published.

    True if there is anything. Each finding has a ``rule``, a ``severity`` ("warning": if true it
    voids the guarantee; "hint": may well be innocent), ``where`` it sits, a ``message`` and a
    ``fix``. None quotes a number of the data, yet that there is a finding was computed from them.

    Attributes
    ----------
    findings : tuple of Finding
        Warnings first.
    """

    findings: tuple[Finding, ...] = ()

    def __getitem__(self, index: Any) -> Any:
        return self.findings[index]

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that would void the guarantee."""
        return tuple(f for f in self.findings if f.severity == "warning")

    def to_frame(self) -> pd.DataFrame:
        """One row per finding: rule, severity, where, message, fix."""
        columns = [field.name for field in fields(Finding)]
        return pd.DataFrame([astuple(f) for f in self.findings], columns=columns)

    def _title(self) -> str:
        hints = len(self) - len(self.warnings)
        counts = f"warnings: {len(self.warnings)}, hints: {hints}" if self else NOTHING
        return f"{counts} ({FOR_THE_CURATOR})"

    def __repr__(self) -> str:
        lines = [f"LintReport: {self._title()}"]
        for f in self.findings:
            lines += [
                f"  {f.severity:8s} {f.rule}: {f.where}",
                f"           {f.message}",
                f"           fix: {f.fix}",
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        title = f"<p><b>LintReport</b>: {escape(self._title())}</p>"
        if not self:
            return title
        heads = "".join(f"<th>{field.name}</th>" for field in fields(Finding))
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in astuple(f)) + "</tr>"
            for f in self.findings
        )
        return f"{title}<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def lint(model: Any = None, *, records: str | Mapping[str, int] | None = None) -> LintReport:
    """Look for constants of a model that seem computed from its private data.

    For the curator: not to be published, not even how many findings there were. The guarantee
    assumes that priors and all other constants were fixed without looking at the data; this
    function reads the data to tell where that may be false. It changes nothing, nothing else calls
    it, and finding nothing proves nothing. Looked for:

    - *constant*: a number of a prior, likelihood or potential that equals, to 6 digits, a mean,
      sum, sd, variance, quantile or extreme of a column, or a usual multiple of a sd;
    - *automatic prior*, *transform*: priors that Bambi scaled by the data, and terms such as
      ``scale(x)``, ``bs(x)`` or ``hsgp(x)`` that remember something of them;
    - *scaled*: a column centered, standardized or stretched by its own statistics;
    - *range*: the middle of a column, or a usual multiple of half its range, as `pymc.gp.HSGP`
      bakes them in;
    - *levels*: an index that takes every level of its dim (a hint);
    - *lag*: a column that is another one moved by 1 to 3 rows;
    - *copy*: a column that stands in two arrays (a hint, unless one of them is public).

    A number is never reported if it would be written without data: one with at most two significant
    digits, a fraction of whole numbers up to 12, a known constant (pi, e, roots and logarithms of
    small numbers), or an end of a domain declared in `privatize`. The number of records is reported
    from 10 on, and only as a hint, since it is public under substitution. Quantiles, extremes and
    ranges of columns with at most three decimals are hints: data reach the ends of a coarse scale.

    Parameters
    ----------
    model : pymc.Model, Bambi model or PrivateModel, optional
        Left untouched (a Bambi model is built if it was not). Default: the model of the context.
        Prefer the model itself: data of a PrivateModel are already clipped, and Bambi's marks gone.
    records : str or dict, optional
        As for `privatize`. Default: whatever is as long as the longest axis of the observed data.

    Returns
    -------
    LintReport

    Raises
    ------
    DomainError
        This is not a model, `records` names no dim, array or axis of it, or was given together with
        a PrivateModel, which knows its own.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_private as pmp
    >>> y = np.random.default_rng(1).normal(size=50)
    >>> with pm.Model(coords={"person": range(50)}) as model:
    ...     mu = pm.Normal("mu", 0, 2.5 * y.std())
    ...     seen = pm.Normal("y", mu, 1, observed=y, dims="person")
    >>> [finding.message for finding in pmp.lint(model, records="person")]
    ["a number here equals 2.5 sd of 'y' to 6 digits"]
    """
    if isinstance(model, PrivateModel):
        if records is not None:
            raise DomainError(
                "a PrivateModel knows its records",
                got=f"records={records!r}",
                allowed="no records=",
                do="leave it out",
            )
        base = model.base
    else:
        base = declare__intake.resolve(model)
    facts = facts_of(base if model is None else model, base, records)
    with np.errstate(all="ignore"):  # what the data do to a formula is no warning's business
        found = [finding for rule in RULES for finding in rule(facts)]
    found = sorted(dict.fromkeys(found), key=lambda finding: finding.severity != "warning")
    return LintReport(tuple(found))
