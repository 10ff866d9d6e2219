"""Fingerprints of private models: their public structure, never a private value.

Private variables are inputs of the graphs that are described, so no private value can enter. Under
add/remove the number of records is left out, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors

from pymc_private.errors import Incompatible
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import single_record
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.privacy.neighbors import ADD_REMOVE


def model_fingerprint(private: PrivateModel) -> str:
    """SHA-256 of `describe_structure`."""
    return hashlib.sha256(describe_structure(private).encode()).hexdigest()


def describe_structure(private: PrivateModel) -> str:
    """Text of the record's graph, priors, public constants, domain, region, power and clip.

    Private variables are inputs of these graphs, so no private value can enter.
    """
    theta = private.theta_l  # its limit identifies the set; all else follows from the record
    prior = private.graph.prior if theta is None else theta.prior
    limit = None if theta is None else (theta.limit, theta.record is private.graph.record)
    outputs = [private.graph.record, prior]
    if private.neighbors == ADD_REMOVE or private.table_rows is not None:
        # The number of rows is protected, or that of placeholders: no digest may depend on it.
        outputs = [_single_record_value(private), prior]
    text, constants = graph_text(outputs)
    shared = [_digest(v.get_value()) for v in public_data(outputs)]
    parts = (text, constants, shared, *_declared(private))
    return repr(parts if limit is None else (parts, _plain_form(limit)))


def declaration_fingerprint(private: PrivateModel) -> str:
    """SHA-256 of what was declared and of the parameters: without graphs, which versions differ in.

    Of a model that is given to another PyMC or PyTensor this much can be compared.
    """
    return hashlib.sha256(repr(_declared(private)).encode()).hexdigest()


def _declared(private: PrivateModel) -> tuple[Any, ...]:
    """Domain, region, power, neighbors and shapes, in plain form."""
    protected = private.neighbors == ADD_REMOVE
    no_rows = protected or private.table_rows is not None
    boxes = [
        (name, _digest(b.lower), _digest(b.upper))
        for part in (private.region, private.box)
        for name, b in sorted(part.items())
    ]
    sources = [
        (s.name, s.axis, s.row_shape if no_rows else s.shape, _plain_form(s.domain))
        for s in private.sources
    ]
    return (
        sources,
        boxes,
        str(private.power),
        private.records,
        None if protected else private.record_count,
        private.neighbors,
        private.records_per_unit,
        private.claims,
        private.shapes,
        _plain_form(private.graph.clip),
        *(() if private.table_rows is None else (f"table of {private.table_rows}",)),
    )


def graph_text(outputs: Sequence[Variable]) -> tuple[str, list[tuple[str, tuple[int, ...], str]]]:
    """A graph as text, and digests of its constants, whose values the text abbreviates."""
    printed = pytensor.dprint(list(outputs), file="str", print_type=True)
    text = re.sub(" at 0x[0-9A-Fa-f]+", "", printed)  # memory addresses of generators
    constants = [
        _digest(v.data)
        for v in ancestors(list(outputs))
        if isinstance(v, Constant) and isinstance(v.data, np.ndarray)
    ]
    return text, constants


def _single_record_value(private: PrivateModel) -> Variable:
    """The graph of a single record, which is the same for any number of records."""
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None:  # `privatize` refuses such models
        raise Incompatible(
            "this model computes with the number of records, which add/remove protects",
            do="privatize it anew",
        )
    return record.value


def _digest(array: Any) -> tuple[str, tuple[int, ...], str]:
    """Type, shape and SHA-256 of an array, independent of print options."""
    whole = np.ascontiguousarray(array)
    return str(whole.dtype), whole.shape, hashlib.sha256(whole.tobytes()).hexdigest()


def _plain_form(value: Any) -> Any:
    """A domain or other value as nested plain values and digests."""
    if isinstance(value, np.ndarray | np.generic | float):
        return _digest(value)
    if isinstance(value, list | tuple):
        return [_plain_form(item) for item in value]
    if isinstance(value, dict):
        return [(str(key), _plain_form(item)) for key, item in sorted(value.items())]
    if hasattr(value, "__dict__"):
        return type(value).__name__, _plain_form(vars(value))
    return repr(value)
