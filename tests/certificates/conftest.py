"""Private models and certificates of the zoo, as in `tests/models`."""

from tests.models.conftest import certificate, private

__all__ = ["certificate", "private"]
