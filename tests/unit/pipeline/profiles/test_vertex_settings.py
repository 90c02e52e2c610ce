"""kfp can write every setting of a profile for Vertex."""

from typing import Any

import hypothesis

from pipeline.profiles import vertex_settings
from pipeline.profiles.profiles import VERTEX
from tests.unit.pipeline.profiles.contents import CONTAINERS, require_writable


@hypothesis.given(settings=CONTAINERS)
def test_what_is_read_can_be_written(settings: dict[str, Any]) -> None:
    require_writable(VERTEX, settings, vertex_settings.apply)
