"""Effort of a property test: as its author sets it in `make test-soak`, half of it in `make test`, less in `make check`."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

_USUAL = 100
"""Number of examples that hypothesis draws by default."""


def examples(many: int) -> int:
    """Return `many`, scaled by what the profile draws of the usual number: for ``settings(max_examples=examples(1500))``."""
    return max(1, many * settings().max_examples // _USUAL)


def against_a_service(many: int) -> settings:
    """Return the settings of a property whose examples all go to one service, and so are slow."""
    return settings(
        max_examples=examples(many),
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
