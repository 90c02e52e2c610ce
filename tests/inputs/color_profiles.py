"""Color profiles of the kind that cameras and phones embed, and colors in sRGB by their formula."""

import struct

import numpy as np

# Red, green and blue as XYZ at D50; ICC.1:2001 and the profiles that Apple and Adobe publish.
DISPLAY_P3 = ((0.5151, 0.2412, -0.0011), (0.2920, 0.6922, 0.0419), (0.1571, 0.0666, 0.7841))
ADOBE_RGB = ((0.6097, 0.3111, 0.0195), (0.2053, 0.6257, 0.0609), (0.1492, 0.0632, 0.7446))
PRO_PHOTO = ((0.7977, 0.2880, 0.0000), (0.1352, 0.7119, 0.0000), (0.0313, 0.0001, 0.8249))
_SRGB = ((0.4361, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7141))
_WHITE = (0.9642, 1.0, 0.8249)
_GAMMA = 563 / 256


def profile(primaries: tuple[tuple[float, ...], ...]) -> bytes:
    """Return a matrix profile of gamma 2.2 as ICC.1:2001 says."""

    def xyz(values: tuple[float, ...]) -> bytes:
        return b"XYZ " + bytes(4) + struct.pack(">3i", *(round(value * 65536) for value in values))

    curve = b"curv" + bytes(4) + struct.pack(">IHxx", 1, 563)
    tags = {b"wtpt": xyz(_WHITE)}
    for color, values in zip((b"r", b"g", b"b"), primaries, strict=True):
        tags |= {color + b"XYZ": xyz(values), color + b"TRC": curve}
    table, body, start = b"", b"", 132 + 12 * len(tags)
    for name, content in tags.items():
        table += name + struct.pack(">II", start + len(body), len(content))
        body += content
    about = b"lcms" + struct.pack(">I", 0x2100000) + b"mntrRGB XYZ " + bytes(12) + b"acsp" + bytes(28)
    head = about + xyz(_WHITE)[8:] + bytes(48)
    return struct.pack(">I", start + len(body)) + head + struct.pack(">I", len(tags)) + table + body


def to_srgb(colors: np.ndarray, primaries: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """Return colors [..., 3] of such a profile, from 0 to 255, in sRGB; those out of its gamut are clipped."""
    xyz = (colors / 255) ** _GAMMA @ np.array(primaries)
    linear = np.clip(xyz @ np.linalg.inv(np.array(_SRGB)), 0, 1)
    return 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
