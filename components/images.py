"""Container image names. Read from the environment once, because Kubeflow fixes an image when a spec is written."""

import os

VERSION = "0.1.0"
REGISTRY = os.environ.get("WGAN_IMAGE_REGISTRY", "wgan")
TAG = os.environ.get("WGAN_IMAGE_TAG", VERSION)


NO_IMAGE = "none: run as a process"


def image(name: str) -> str:
    """The image reference of one target of docker/Dockerfile, such as `wgan/train:0.1.0`."""
    return f"{REGISTRY}/{name}:{TAG}"


def running_image() -> str:
    """The image that this process runs in, as the image itself says in `WGAN_IMAGE`; `NO_IMAGE` where nothing does."""
    return os.environ.get("WGAN_IMAGE") or NO_IMAGE
