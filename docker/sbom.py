"""The bill of materials of an image as CycloneDX, with its packages of Python and of Debian. Reproducible."""

import uuid
from typing import Any

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL


def bill_of_materials(image: str, version: str, contents: dict[str, Any]) -> str:
    """Return the bill of materials as CycloneDX 1.6, in JSON.

    Args:
        image: The image's name, such as `wgan/train`.
        version: The image's version.
        contents: The output of docker/contents.py in the image.
    """
    python = PackageURL("generic", None, "python", contents["python"])
    components = [_component("python", contents["python"], python)]
    for package in contents["python_packages"]:
        purl = PackageURL("pypi", None, package["name"].lower().replace("_", "-"), package["version"])
        components.append(_component(package["name"], package["version"], purl, package["license"]))
    for package in contents["debian_packages"]:
        qualifiers = {"arch": package["architecture"], "distro": f"debian-{contents['debian']}"}
        purl = PackageURL("deb", "debian", package["name"], package["version"], qualifiers)
        components.append(_component(package["name"], package["version"], purl, package["license"]))
    bom = Bom(components=components)
    bom.metadata.component = Component(
        name=image, version=version, type=ComponentType.CONTAINER, bom_ref=f"{image}:{version}"
    )
    bom.register_dependency(bom.metadata.component, components)
    # Reproducible: no timestamp, and a serial number derived from the content.
    bom.metadata.timestamp = None  # type: ignore[assignment]
    purls = "\n".join(sorted(str(component.purl) for component in components))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"{image}:{version}\n{purls}")
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _component(name: str, version: str, purl: PackageURL, license: str = "") -> Component:
    licenses = [DisjunctiveLicense(name=license)] if license else []
    return Component(
        name=name, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl), licenses=licenses
    )
