"""Profiles of hypothesis."""

from hypothesis import HealthCheck, settings


def register_profiles() -> None:
    """Register `repeatable`, the default (pyproject.toml), and `random`, which `make test-random` selects."""
    # The speed of data generation depends on other load of the machine.
    common = settings(deadline=None, print_blob=True, database=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("repeatable", common, derandomize=True, max_examples=50)
    settings.register_profile("random", common, derandomize=False, max_examples=500)
