"""Settings of the publish stage."""

from dataclasses import dataclass
from typing import Annotated

from components.core.settings import Setting, require_valid


@dataclass(frozen=True, kw_only=True)
class PublishConfig:
    """Publishes a model as the registry's next version and champion, if the verdict on it is PROMOTE."""

    model: Annotated[str, Setting("Folder of the model.", in_key=False)]
    evaluation: Annotated[str, Setting("Folder of the evaluation that judged it.", in_key=False)]
    registry: Annotated[str, Setting("Folder of the registry, here or gs://BUCKET/FOLDER.", in_key=False)]
    model_digest: Annotated[str, Setting("The digest that the model must have; any when empty.", in_key=False)] = ""
    evaluation_digest: Annotated[
        str, Setting("The digest that the evaluation must have; any when empty.", in_key=False)
    ] = ""
    recipe: Annotated[str, Setting("What the run was made from, as the decide stage says.", in_key=False)] = ""
    checkpoint: Annotated[str, Setting("Folder of the checkpoint that the model comes from.", in_key=False)] = ""

    def __post_init__(self) -> None:
        require_valid(self)
