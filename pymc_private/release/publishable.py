"""A frozen value with a guarantee and a fingerprint: what releases and summaries have in common."""

from __future__ import annotations

from typing import NoReturn

from pymc_private.privacy.guarantee import Guarantee


class Publishable:
    """A frozen value that may be published, with its privacy guarantee.

    Equal content means equal objects and equal hashes.
    """

    __slots__ = ()

    _guarantee: Guarantee
    _private: bool
    _fingerprint: str

    @property
    def guarantee(self) -> Guarantee:
        """What publishing it reveals at most."""
        return self._guarantee

    @property
    def private(self) -> bool:
        """False if its randomness came from a known seed: it must not be published."""
        return self._private

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content, hex; it tells contents apart and is not a signature."""
        return self._fingerprint

    def __setattr__(self, field: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is frozen: cannot set {field!r}")

    def __delattr__(self, field: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is frozen: cannot delete {field!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._fingerprint == other._fingerprint

    def __hash__(self) -> int:
        return hash(self._fingerprint)
