"""Settings of the publish stage."""

from typing import Annotated

from components.core.settings import Config, Unkeyed


class PublishConfig(Config):
    """Publish a model as the next version and champion, if its verdict is PROMOTE."""

    model: Annotated[str, Unkeyed("Folder of the model.")]
    evaluation: Annotated[str, Unkeyed("Folder of the evaluation with its verdict.")]
    registry: Annotated[str, Unkeyed("Folder of the registry, local or gs://BUCKET/FOLDER.")]
    model_digest: Annotated[str, Unkeyed("Expected digest of the model; any when empty.")] = ""
    evaluation_digest: Annotated[str, Unkeyed("Expected digest of the evaluation; any when empty.")] = ""
    recipe: Annotated[str, Unkeyed("Recipe of the run from the decide stage.")] = ""
    checkpoint: Annotated[str, Unkeyed("Folder of the model's checkpoint.")] = ""
