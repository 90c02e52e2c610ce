"""The fingerprint stage: what a source holds now."""

from components import sources
from components.executor import StageResult
from components.fingerprint.config import FingerprintConfig


def run(config: FingerprintConfig) -> StageResult:
    """Fingerprints a source. Light: nothing is decoded, and nothing is imported beyond the standard library.

    Returns:
        source_fingerprint: 64 hexadecimal digits that change when a file's name or content does.

    Raises:
        DataError: The source does not exist or holds no images.
    """
    fingerprint, summary = sources.fingerprint(config.source)
    return StageResult(parameters={"source_fingerprint": fingerprint, "summary": summary})
