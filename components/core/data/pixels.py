"""Bytes of an image file, or pixels as stored, to pixels of the requested shape and color. Pure functions.

NumPy is imported for 16 bit alone and ImageCms for profiles, so that processes that decode start in half the time.
"""

import collections
import functools
import io
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from PIL import Image, ImageChops, ImageColor, ImageOps, ImageStat, JpegImagePlugin, PngImagePlugin, WebPImagePlugin
from PIL.ImageFile import ImageFile

from components.core.artifacts.datasets import ImageShape
from components.core.sources.files import LARGEST_IMAGE_FILE

LARGEST_IMAGE = 25_000_000  # pixels to decode; a small file can declare any size
LARGEST_FILE = LARGEST_IMAGE_FILE  # with the pixels of the largest image, decoding takes less than 512 MiB
# A JPEG file decoded at a smaller scale keeps at least so many times the requested size, if it is not too large then.
JPEG_OVERSAMPLING = 4
MOST_CROPPED = 0.3
TOO_LARGE = f"has more than {LARGEST_FILE:,} bytes"
_LONGEST_REASON = 200
_LANCZOS = Image.Resampling.LANCZOS
# A tag of EXIF, and those of its values that transpose an image, then mirror it, then turn it upside down (EXIF 2.32).
_ORIENTATION = 0x0112
_ON_ITS_SIDE, _MIRRORED, _UPSIDE_DOWN = {5, 6, 7, 8}, {2, 3, 6, 7}, {3, 4, 7, 8}
_TURNS = dict(enumerate(map(Image.Transpose, (0, 3, 1, 5, 4, 6, 2)), start=2))  # by its values from 2 on
Box = tuple[float, float, float, float]  # left, top, right, bottom
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_OF_PIXELS = (b"tRNS", b"acTL", b"eXIf")  # chunks beside the critical ones: transparency, animation, orientation
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_LARGEST_PROFILE = 4 << 20  # bytes
# The metadata that `PIL.Image.Image.getexif` reads.
_SAYING_ORIENTATION = frozenset({"exif", "Raw profile type exif", "XML:com.adobe.xmp", "xmp"})
# The background, on which transparent pixels lie, or whose color they have in a shape with alpha: `white`, `black`,
# `#rrggbb` or `mean` of the opaque ones; the stored value that is white, or 0 for the largest of 8 or 16 bits.
Colors = tuple[str, int]


class Decoded(NamedTuple):
    """An image in the shape of the dataset."""

    pixels: bytes  # uint8 [height, width, channels], row by row
    is_cropped: bool = False  # whether it lost more than `MOST_CROPPED` of its area to fill the shape


class UndecodableImage(Exception):
    """An image file that cannot be decoded; the message is the reason."""


def from_file(content: bytes, shape: ImageShape, resize: str, colors: Colors = ("white", 0)) -> Decoded:
    """Decodes a PNG, JPEG or WebP file.

    The content decides the kind, not the name. EXIF orientation and color profiles are applied unless they are damaged.
    A JPEG file is decoded at a half, a quarter or an eighth of its size (libjpeg's DCT scaling) where that has
    `JPEG_OVERSAMPLING` times the size asked for, or where more than `LARGEST_IMAGE` pixels would be decoded.

    `UndecodableImage` if the file is of another kind, damaged, animated, of more than `LARGEST_IMAGE` pixels to decode
    or of more than `LARGEST_FILE` bytes. `resize` is that of `fitted`.
    """
    try:
        with _open(content) as image:
            picture = _reduced(image, shape)
            pixels = _upright_8_bit(image, content, colors[1])
        del image  # whose decoder holds up to 300 MB
        left, top, right, bottom = picture or (0, 0, *pixels.size)
        aspects = (right - left) * shape.height, (bottom - top) * shape.width
        is_cropped = resize == "fill" and min(aspects) < (1 - MOST_CROPPED) * max(aspects)
        return Decoded(_converted(pixels, shape, resize, colors[0], picture), is_cropped)
    except (UndecodableImage, MemoryError):
        raise
    except Exception as error:  # Pillow raises nearly anything on a damaged file, or on metadata that it refuses
        # One printable line without addresses, the same in every process.
        text = re.sub(r" at 0x[0-9a-f]+", "", " ".join(str(error).split()))[:_LONGEST_REASON]
        reason = (text if text.isprintable() else ascii(text)) or type(error).__name__
    if content.startswith(_PNG) and (bare := _without_metadata(content)) != content:
        return from_file(bare, shape, resize, colors)
    raise UndecodableImage(f"cannot be decoded: {reason}")


def is_image_file(content: bytes) -> bool:
    """Return whether a file begins as a PNG, JPEG or WebP file does."""
    return content.startswith((_PNG, _JPEG)) or _is_webp(content)


def has_16_bits(content: bytes, stored: ImageShape | None) -> bool:
    """Return whether pixels of a shape, or without one those of a PNG file, have 16 bits for each channel."""
    return len(content) > stored.size if stored else content.startswith(_PNG) and content[24] == 16  # after the sides


def from_pixels(content: bytes, stored: ImageShape, shape: ImageShape, resize: str, colors: Colors) -> bytes:
    """Convert pixels of one shape, uint8 or little-endian uint16 row by row, to another shape, as `from_file` does."""
    background, white_level = colors
    if white_level or has_16_bits(content, stored):
        content = _to_8_bit(content, f"<u{len(content) // stored.size}", stored.channels, white_level)
    if stored == shape and stored.channels < 4:
        return content
    image = Image.frombytes(_MODES[stored.channels], (stored.width, stored.height), content)
    return _converted(image, shape, resize, background, None)


def fitted(image: Image.Image, shape: ImageShape, resize: str, picture: Box | None = None) -> Image.Image:
    """Brings an 8-bit image to a shape: gray as ITU-R 601 luma, other sizes by an antialiased Lanczos filter.

    `fill` covers the shape and crops the center, `fit` goes inside it and pads with black, `pad` does so without
    enlarging, so that smaller images keep their pixels, `stretch` ignores the aspect. The image has one of `_MODES`;
    `picture` is the part of it to take, all if None.
    """
    mode, size = _MODES[shape.channels], (shape.width, shape.height)
    if image.mode != mode:
        image = image.convert(mode)
    if image.size == size:
        return image
    left, top, right, bottom = picture = picture or (0, 0, *image.size)
    width, height, aspect = right - left, bottom - top, shape.width / shape.height
    if resize == "fill":
        inside = (aspect * height, height) if width / height >= aspect else (width, width / aspect)
        left, top = left + (width - inside[0]) / 2, top + (height - inside[1]) / 2
        return image.resize(size, _LANCZOS, (left, top, left + inside[0], top + inside[1]))
    if resize == "fit" or (resize == "pad" and (width > shape.width or height > shape.height)):
        if width / height > aspect:
            whole = shape.width, max(1, round(height / width * shape.width))
        else:
            whole = max(1, round(width / height * shape.height)), shape.height
        return ImageOps.pad(image.resize(whole, _LANCZOS, picture), size, color=0)
    if resize == "pad":
        around = Image.new(image.mode, size)
        around.paste(image, ((shape.width - image.width) // 2, (shape.height - image.height) // 2))
        return around
    return image.resize(size, _LANCZOS, picture)


def _to_8_bit(content: bytes, kind: str, channels: int, white_level: int, transparent: Any = None) -> bytes:
    """Scale values of a kind of NumPy to 8 bits, to the nearest, and add alpha if a color is transparent.

    The last of 2 or 4 channels is alpha.
    """
    import numpy as np

    values, most = np.frombuffer(content, kind).reshape(-1, channels), np.iinfo(kind).max
    if transparent is not None:
        values = np.hstack([values, most * (values != transparent).any(axis=1, keepdims=True).astype(kind)])
    level, channels = min(white_level or most, most), values.shape[1]
    white = np.array((channels - 1) * [level] + [most], np.uint32) if channels in (2, 4) else np.uint32(level)
    return bytes(((np.minimum(values, white) * 255 + white // 2) // white).astype(np.uint8))


def _converted(image: Image.Image, shape: ImageShape, resize: str, background: str, picture: Box | None) -> bytes:
    """Return the bytes of `fitted`, of an image of mode L, RGB or RGBA whose transparent pixels get a background."""
    if "RGBA" in (image.mode, _MODES[shape.channels]):
        image = image if image.mode == "RGBA" else image.convert("RGBA")
        alpha = image.getchannel("A")
        opaque = alpha.point(255 * [0] + [255]) if background == "mean" else None
        color = tuple(map(round, ImageStat.Stat(image, opaque).mean[:3])) if opaque else ImageColor.getrgb(background)
        if shape.channels == 4:
            image = fitted(image, shape, resize, picture)  # by Pillow, of colors multiplied by alpha
            alpha = image.getchannel("A").point([0] + 255 * [255])
        below = Image.new(_MODES[max(3, shape.channels)], image.size, (*color, 0))
        below.paste(image, mask=alpha)
        image = below
    return fitted(image, shape, resize, picture).tobytes()


def _reduced(image: Image.Image, shape: ImageShape) -> Box | None:
    """Decode a large JPEG file at a smaller scale, and return the picture within the upright image.

    A side that is no multiple of 8 ends within the last pixel of the smaller image.
    """
    shortest, area = min(image.size), image.width * image.height
    least = next((scale for scale in (1, 2, 4) if area <= scale**2 * LARGEST_IMAGE), 8)
    side = min(JPEG_OVERSAMPLING * max(shape.height, shape.width), shortest // least)  # of both: it may be rotated
    if not isinstance(image, JpegImagePlugin.JpegImageFile) or shortest < 2 * side:
        return None
    if (drafted := image.draft(None, (side, side))) is None:
        return None
    orientation = _orientation(image)
    picture, size = drafted[1][2:], image.size
    if orientation in _ON_ITS_SIDE:
        picture, size = picture[::-1], size[::-1]
    left = size[0] - picture[0] if orientation in _MIRRORED else 0
    top = size[1] - picture[1] if orientation in _UPSIDE_DOWN else 0
    return left, top, left + picture[0], top + picture[1]


def _open(content: bytes) -> ImageFile:
    """Read an image's header. Formats are named, because Pillow would otherwise try dozens."""
    if not content:
        raise UndecodableImage("is empty")
    if len(content) > LARGEST_FILE:
        raise UndecodableImage(TOO_LARGE)
    image: ImageFile
    most = LARGEST_IMAGE
    if content.startswith(_PNG):
        image = PngImagePlugin.PngImageFile(io.BytesIO(content))
    elif content.startswith(_JPEG):
        image = JpegImagePlugin.JpegImageFile(io.BytesIO(content))
        most *= 2 if "progressive" in image.info else 64  # progressive: 6 bytes per pixel at any scale
    elif _is_webp(content):
        if 8 + int.from_bytes(content[4:8], "little") > len(content):  # libwebp decodes some cut files in part
            raise UndecodableImage("is cut short")
        image = WebPImagePlugin.WebPImageFile(io.BytesIO(content))
    else:
        raise UndecodableImage(f"is no PNG, JPEG or WebP file: it starts with {content[:8]!r}")
    if image.width * image.height > most:
        raise UndecodableImage(f"is {image.width}x{image.height}, more than {most:,} pixels")
    if getattr(image, "is_animated", False):
        raise UndecodableImage("is animated")
    if isinstance(image, PngImagePlugin.PngImageFile):
        collections.deque(_checked_chunks(content), maxlen=0)
    return image


def _is_webp(content: bytes) -> bool:
    return content.startswith(b"RIFF") and content[8:12] == b"WEBP"  # around the size of what follows


def _checked_chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and bytes of each chunk of a PNG file; Pillow does not compare the checksums of those with pixels."""
    kind, at = b"", len(_PNG)
    while kind != b"IEND":
        try:
            length, kind = struct.unpack_from(">I4s", content, at)
            end = at + 8 + length
            (checksum,) = struct.unpack_from(">I", content, end)
        except struct.error:
            raise UndecodableImage("is cut short") from None
        if zlib.crc32(content[at + 4 : end]) != checksum:
            raise UndecodableImage(f"is damaged: a chunk {kind!r} has another checksum")
        yield kind, content[at : end + 4]
        at = end + 4


def _without_metadata(content: bytes) -> bytes:
    """Return a PNG file without the chunks that say nothing of its pixels."""
    return _PNG + b"".join(chunk for kind, chunk in _checked_chunks(content) if kind.isupper() or kind in _OF_PIXELS)


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation; 1, upright, if the metadata is damaged, as the pixels may be whole."""
    try:  # `getexif` takes long for a small image
        return 1 if _SAYING_ORIENTATION.isdisjoint(image.info) else int(image.getexif().get(_ORIENTATION, 1))
    except (ArithmeticError, AttributeError, LookupError, OSError, SyntaxError, TypeError, ValueError, struct.error):
        return 1


def _load_upright(image: Image.Image) -> None:
    image.load()  # the orientation may come after the pixels
    if (turn := _TURNS.get(_orientation(image))) is not None:
        image.im = image.im.transpose(turn)  # in place: a copy of a large image takes 100 MB
        image._size = image.im.size


def _upright_8_bit(image: ImageFile, content: bytes, white_level: int) -> Image.Image:
    """Return the image as mode L, RGB or RGBA in sRGB, turned by its EXIF orientation."""
    stored = str(image.tile[0].args) if image.tile and isinstance(image, PngImagePlugin.PngImageFile) else ""
    if has_16_bits := stored.endswith(";16B"):
        pixels = _from_16_bits(image, stored, content, white_level)
    else:
        _load_upright(image)
        pixels = image
        if "transparency" in image.info:  # a gray that Pillow does not scale as it does pixels
            image.info["transparency"] *= {"L;2": 85, "L;4": 17}.get(stored, 1)
    profile = image.info.get("icc_profile") if pixels.mode in ("RGB", "RGBA", "P") else b""
    if pixels.has_transparency_data:
        pixels = pixels.convert("RGBA")
    elif pixels.mode not in ("L", "RGB"):
        pixels = pixels.convert("L" if pixels.mode == "1" else "RGB")
    if 0 < white_level < 255 and not has_16_bits:
        table = [(min(value, white_level) * 255 + white_level // 2) // white_level for value in range(256)]
        pixels = pixels.point(len(pixels.mode[:3]) * table + len(pixels.mode[3:]) * [*range(256)])
    transform = _to_srgb(profile[:_LARGEST_PROFILE], pixels.mode) if profile else None
    return pixels.point(transform) if transform else pixels


def _from_16_bits(image: ImageFile, stored: str, content: bytes, white_level: int) -> Image.Image:
    """Load a PNG file of 16 bits, by Pillow's name of its pixels; return it upright as mode L, LA, RGB or RGBA."""
    import numpy as np

    channels, transparent = stored.index(";"), image.info.get("transparency")
    # Pillow would drop the last byte of each color. These are pixels that together have all bytes.
    names = {"I;16B": ["I;16"], "LA;16B": ["RGBA"]}.get(stored, [stored, f"{stored[:-1]}L"])
    parts = [image, *(PngImagePlugin.PngImageFile(io.BytesIO(content)) for _ in names[1:])]
    for part, name in zip(parts, names, strict=True):
        part.tile = [part.tile[0]._replace(args=name)]
        _load_upright(part)
    result = Image.new(_MODES[channels + (transparent is not None)], image.size)
    rows = min(image.height, max(1, 1_000_000 // image.width))  # in strips, because NumPy takes much memory
    for top in range(0, image.height, rows):
        strips = [np.asarray(part.crop((0, top, image.width, top + rows))) for part in parts]
        pixels = _to_8_bit(np.stack(strips, axis=-1).tobytes(), ">u2", channels, white_level, transparent)
        result.paste(Image.frombytes(result.mode, (image.width, rows), pixels), (0, top))
    return result


@functools.lru_cache(maxsize=16)
def _to_srgb(profile: bytes, mode: str) -> Image.ImagePointHandler | None:
    """Return the transform of a color profile to sRGB; None if it is that, or damaged, or not of RGB."""
    from PIL import ImageCms

    try:
        transform = ImageCms.buildTransform(io.BytesIO(profile), ImageCms.createProfile("sRGB"), mode, mode)
    except (ImageCms.PyCMSError, TypeError):
        return None
    colors = Image.merge("RGB", [Image.linear_gradient("L").rotate(turn) for turn in (0, 90, 180)]).convert(mode)
    return transform if max(ImageChops.difference(colors, colors.point(transform)).tobytes()) > 1 else None
