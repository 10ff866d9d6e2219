"""What `sample` was asked for: a plan, a private model, or a model with its declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.posterior.calibrate import at_cost, calibrate
from pymc_private.posterior.plan import Plan
from pymc_private.models.private_model import PrivateModel, privatize
from pymc_private.samplers.choose import AUTO, check_sampler

MEANINGLESS = {
    "tune": "exact draws need no warm-up; remove it",
    "chains": "draws are independent; say draws=, and release.to_arviz(chains=...) to split them",
    "cores": "the draw runs in this process; remove it",
    "initvals": "exact draws have no start; remove it",
    "step": "the sampler is chosen by the plan; see calibrate",
    "nuts_sampler": "say sampler=pmp.Nuts(backend=..., tv=...): its claim is conditional",
    "target_accept": "there is no step size; remove it",
    "idata_kwargs": "a release holds draws alone; see release.to_arviz()",
}


DECLARE = ("records", "domain", "neighbors", "records_per_unit", "public", "constants")


def refuse_keywords(declaration: Mapping[str, Any]) -> None:
    """Refuse what means nothing here, with its equivalent (`TypeError`)."""
    for keyword in declaration:
        if keyword in MEANINGLESS:
            raise TypeError(f"sample() has no '{keyword}': {MEANINGLESS[keyword]}")
        if keyword not in DECLARE:
            raise TypeError(f"sample() got an unexpected keyword '{keyword}'")


def as_plan(
    what: Any,
    draws: int | None,
    epsilon: float | None,
    delta: float,
    declaration: Mapping[str, Any],
    sampler: Any,
    strict: bool,
) -> Plan:
    """Whatever was given, as a plan."""
    if isinstance(what, Plan | PrivateModel) and declaration:
        raise DomainError(
            "the declaration was made already",
            got=", ".join(declaration),
            allowed="records=, domain=, ... with a model only",
            do="call privatize again to declare something else",
        )
    if isinstance(what, Plan):
        _refuse_other_numbers(what, draws, epsilon, delta)
        _refuse_other_sampler(what, sampler, strict)
        return what
    if draws is None:
        raise DomainError("how many draws?", got="draws=None", allowed="draws=1, 2, ...")
    private = what if isinstance(what, PrivateModel) else privatize(what, **declaration)
    if epsilon is None:
        if not isinstance(what, PrivateModel):
            raise DomainError(
                "a model needs a budget",
                got="epsilon=None",
                allowed="epsilon > 0, in nats",
                do="pass epsilon= (and delta=), or calibrate a plan",
            )
        return at_cost(private, draws, delta, sampler, strict)
    return calibrate(
        private, epsilon=epsilon, delta=delta, draws=draws, sampler=sampler, strict=strict
    )


def _refuse_other_sampler(plan: Plan, sampler: Any, strict: bool) -> None:
    """A sampler named beside a plan must be the plan's own."""
    check_sampler(sampler)
    named = sampler if isinstance(sampler, str) else sampler.name
    same = named in (AUTO, plan.sampler) and (isinstance(sampler, str) or sampler == plan.method)
    if not same or (strict and not plan.certificate.terms.strict):
        raise DomainError(
            "a plan fixes its sampler",
            got=f"sampler={named!r}" if not same else "strict=True",
            allowed=f"{plan.method}",
            do="calibrate another plan with sampler= or strict=",
        )


def _refuse_other_numbers(
    plan: Plan, draws: int | None, epsilon: float | None, delta: float
) -> None:
    """Numbers beside a plan must be the plan's own."""
    asked = {"draws": draws, "epsilon": epsilon, "delta": delta or None}
    fixed = {"draws": plan.draws, "epsilon": plan.epsilon, "delta": plan.delta}
    other = [key for key, value in asked.items() if value is not None and value != fixed[key]]
    if other:
        raise DomainError(
            "a plan fixes its numbers",
            got=", ".join(f"{key}={asked[key]}" for key in other),
            allowed=", ".join(f"{key}={fixed[key]}" for key in other),
            do="calibrate another plan",
        )
