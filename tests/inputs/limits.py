"""Limits that every model meets, for tests with bad models."""

from typing import Any

NO_LIMITS: dict[str, Any] = {
    "distance_limit": 1e9,
    "recall_limit": 0.0,
    "coverage_limit": 0.0,
    "class_distance_limit": 1.0,
    "class_ratio_limit": 0.0,
    "class_coverage_limit": 0.0,
    "distinct_share_limit": 0.0,
    "copy_share_limit": 1.0,
    "copy_nearness_limit": 1.0,
    "uncertified": "judge",
}
