"""Limits that every model meets, for tests with bad models."""

from typing import Any

NO_LIMITS: dict[str, Any] = {
    "distance_limit": 1e9,
    "recall_limit": 0.0,
    "coverage_limit": 0.0,
    "class_distance_limit": 1.0,
    "class_ratio_limit": 0.0,
    "class_coverage_limit": 0.0,
    "class_accuracy_limit": 0.0,
    "worst_class_accuracy_limit": 0.0,
    "pixel_limit": 1e9,
    "faulty_share_limit": 1.0,
    "outlier_share_limit": 1.0,
    "repeat_share_limit": 1.0,
    "distinct_share_limit": 0.0,
    "copy_share_limit": 1.0,
    "copy_nearness_limit": 1.0,
    "uncertified": "judge",
}
