"""The fingerprint stage: what a source holds now, and a user's own embedding."""

from components import own_embedding, sources
from components.executor import StageResult
from components.fingerprint.config import FingerprintConfig


def run(config: FingerprintConfig) -> StageResult:
    """Fingerprints a source. Light: nothing is decoded, and nothing is imported beyond the standard library.

    Returns:
        source_fingerprint: 64 hexadecimal digits that change when a file's name or content does.
        own_embedding_digest: The like of the user's own embedding; empty without one.

    Raises:
        ConfigError: The source is a URI of another scheme than gs://.
        DataError: The source does not exist or holds no images, or the embedding is no SavedModel.
    """
    fingerprint, summary = sources.fingerprint(config.source, config.index)
    own_digest = own_embedding.digest_of_content(config.own_embedding)
    return StageResult(
        parameters={"source_fingerprint": fingerprint, "own_embedding_digest": own_digest, "summary": summary}
    )
