"""What identifies a private model in public: its structure, never a private value."""

from __future__ import annotations

import hashlib

import numpy as np
import pytensor
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from pymc_private.models.pinning import public_data
from pymc_private.models.private_model import PrivateModel


def describe_structure(private: PrivateModel) -> str:
    """Text of the record's graph, priors, public constants, domain, region and power.

    Private variables are inputs of these graphs, so no private value can enter.
    """
    graph = private.graph
    text = pytensor.dprint([graph.record, graph.prior], file="str", print_type=True)
    constants = [
        hashlib.sha256(np.ascontiguousarray(v.data).tobytes()).hexdigest()
        for v in ancestors([graph.record, graph.prior])
        if isinstance(v, Constant) and isinstance(v.data, np.ndarray)
    ]
    shared = [
        hashlib.sha256(np.ascontiguousarray(v.get_value()).tobytes()).hexdigest()
        for v in public_data([graph.record, graph.prior])
    ]
    region = {
        name: (np.asarray(b.lower).tolist(), np.asarray(b.upper).tolist())
        for name, b in sorted(private.region.items())
    }
    parts = (
        text,
        constants,
        shared,
        private.domain,
        region,
        str(private.power),
        private.records,
        private.n,
        private.neighbors,
        private.claims,
        private.shapes,
    )
    return repr(parts)


def model_fingerprint(private: PrivateModel) -> str:
    """SHA-256 of `describe_structure`."""
    return hashlib.sha256(describe_structure(private).encode()).hexdigest()
