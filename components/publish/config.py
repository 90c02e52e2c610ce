"""Settings of the publish stage."""

from typing import Annotated

from components.core.settings import Config, Setting


class PublishConfig(Config):
    """Publish a model as the next version and champion, if its verdict is PROMOTE."""

    model: Annotated[str, Setting("Folder of the model.", in_key=False)]
    evaluation: Annotated[str, Setting("Folder of the evaluation with its verdict.", in_key=False)]
    registry: Annotated[str, Setting("Folder of the registry, local or gs://BUCKET/FOLDER.", in_key=False)]
    model_digest: Annotated[str, Setting("Expected digest of the model; any when empty.", in_key=False)] = ""
    evaluation_digest: Annotated[str, Setting("Expected digest of the evaluation; any when empty.", in_key=False)] = ""
    recipe: Annotated[str, Setting("Recipe of the run from the decide stage.", in_key=False)] = ""
    checkpoint: Annotated[str, Setting("Folder of the model's checkpoint.", in_key=False)] = ""
