"""Image files of every kind, whole and damaged, with the expected result: docs/sources-and-datasets.md."""

import functools
import io
import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from components.core.artifacts.datasets import ImageShape
from components.core.data import pixels
from components.core.data.pixels import UndecodableImage

SHAPE = ImageShape(16, 16, 3)  # of every case
LEVELS = np.arange(256).reshape(16, 16)
RAMP = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)  # 16 bit; its levels of 8 bit are LEVELS
NOISE = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)


class Case(NamedTuple):
    """An image file and its expected result."""

    make: Callable[[], bytes]
    # The expected pixels, [16, 16, 3] or one color; the beginning of the reason for quarantine; or None for a damaged
    # JPEG that decodes to something else unnoticed (D4).
    expected: Any
    tolerance: int = 0  # levels by which pixels may differ, before rounding

    def problem(self, decoded: np.ndarray | UndecodableImage) -> str:
        """Return what is wrong with the pixels, uint8 [16, 16, 3], or the reason; empty if nothing."""
        if isinstance(self.expected, str) or isinstance(decoded, UndecodableImage):
            wrong = not isinstance(self.expected, str) or not str(decoded).startswith(self.expected)
            return f"expected {self.expected!r}, found {decoded!r}" if wrong else ""
        if self.expected is None:
            same = decoded.tobytes() == pixels.from_file(JPEG, SHAPE, "fill").pixels
            return "it is the picture that it was" if same else ""
        off = np.abs(decoded - np.asarray(self.expected, float)).max()
        return f"{off} levels off" if off > self.tolerance + 0.5 * (self.tolerance > 0) else ""


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_of(width: int, height: int, bits: int, color: int, data: bytes, *extra: bytes, interlace: int = 0) -> bytes:
    """Return a PNG file by the specification, from compressed rows; Pillow cannot write all kinds."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlace))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(extra) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def png(values: np.ndarray, color: int, *extra: bytes, interlace: int = 0) -> bytes:
    rows = (b"\0" + row.astype(row.dtype.newbyteorder(">")).tobytes() for row in values)
    height, width, bits = *values.shape[:2], 8 * values.itemsize
    return png_of(width, height, bits, color, zlib.compress(b"".join(rows)), *extra, interlace=interlace)


def blank_png(side: int, color: int, bits: int, *extra: bytes) -> bytes:
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    packer, row = zlib.compressobj(1), bytes(1 + side * channels * bits // 8)
    data = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    return png_of(side, side, bits, color, data, *extra)


def sized(width: int, height: int) -> bytes:
    return png_of(width, height, 8, 2, zlib.compress(NOISE.tobytes()))


def saved(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def one_color(mode: str, color: tuple[int, ...], kind: str, **options: Any) -> bytes:
    return saved(Image.new(mode, (16, 16), color), kind, quality=100, **options)


def animated(kind: str) -> bytes:
    return saved(Image.fromarray(NOISE), kind, save_all=True, append_images=[Image.fromarray(NOISE[::-1])])


def gray(values: np.ndarray) -> np.ndarray:
    return np.repeat(values[..., None], 3, axis=2)


def on_white(values: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    part = alpha[..., None] / 255
    return values * part + 255 * (1 - part)


def ycck(file: bytes) -> bytes:
    """Return the CMYK JPEG file marked as YCCK: the transform in its Adobe marker is 2."""
    at = file.index(b"Adobe") + 11
    return file[:at] + b"\2" + file[at + 1 :]


def rgb_of_ycck(y: int, cb: int, cr: int, k: int) -> np.ndarray:
    """Return RGB by Adobe's Technical Note 5116: YCbCr is made of 255 minus each of C, M, Y, stored inverted like K."""
    colors = [y + 1.402 * (cr - 128), y - 0.344136 * (cb - 128) - 0.714136 * (cr - 128), y + 1.772 * (cb - 128)]
    return (255 - np.clip(colors, 0, 255)) * k / 255


@functools.cache
def text_bomb(kind: bytes) -> bytes:
    # 300 MB of zeros, repeated from one compressed megabyte: compressing all of them takes seconds.
    megabyte = zlib.compressobj(9, wbits=-15)
    block = megabyte.compress(bytes(1_000_000)) + megabyte.flush(zlib.Z_FULL_FLUSH)
    packed = b"\x78\xda" + 300 * block + megabyte.flush() + struct.pack(">HH", 300_000_000 % 65521, 1)
    head = {b"zTXt": b"k\0\0", b"iTXt": b"k\0\1\0\0\0"}[kind]
    return chunk(kind, head + packed)


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def riff(chunks: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WEBP" + chunks


JPEG = saved(Image.fromarray(NOISE), "JPEG", quality=90)
WEBP = saved(Image.fromarray(NOISE), "WEBP", lossless=True)
GIF = saved(Image.fromarray(NOISE), "GIF")
ALPHA = LEVELS.astype(np.uint8)
SHORT = "cannot be decoded: "
CASES: dict[str, Case] = {
    # Every kind of PNG is in test_pixels.py.
    "PNG, 8 bit gray": Case(lambda: png(ALPHA, 0), gray(LEVELS)),
    "PNG, 8 bit color": Case(lambda: png(NOISE, 2), NOISE),
    "PNG, 16 bit color with alpha": Case(
        lambda: png(np.dstack([gray(RAMP), RAMP[::-1]]), 6), on_white(gray(LEVELS), LEVELS[::-1]), 1
    ),
    "JPEG, gray": Case(lambda: saved(Image.fromarray(ALPHA), "JPEG", quality=100), gray(LEVELS), 2),
    "JPEG, progressive": Case(lambda: one_color("RGB", (200, 30, 90), "JPEG", progressive=True), [200, 30, 90], 2),
    "JPEG, CMYK": Case(lambda: one_color("CMYK", (255, 0, 0, 0), "JPEG"), [0, 255, 255], 2),
    "JPEG, CMYK as Adobe inverts it": Case(
        lambda: one_color("CMYK", (51, 102, 0, 51), "JPEG"), [204 * 0.8, 153 * 0.8, 204], 3
    ),
    "JPEG, YCCK": Case(
        # Pillow writes 255 minus each value, so these are Y 180, Cb 100, Cr 150, K 204 in the file.
        lambda: ycck(one_color("CMYK", (75, 155, 105, 51), "JPEG")),
        rgb_of_ycck(180, 100, 150, 204),
        4,
    ),
    "JPEG with a flipped bit that decodes": Case(lambda: flipped(JPEG, len(JPEG) - 40), None),
    "WebP, lossless": Case(lambda: WEBP, NOISE),
    "WebP, lossy": Case(lambda: one_color("RGB", (200, 30, 90), "WEBP"), [200, 30, 90], 3),
    "WebP, lossless with alpha": Case(
        lambda: saved(Image.fromarray(np.dstack([NOISE, ALPHA])), "WEBP", lossless=True, exact=True),
        on_white(NOISE, LEVELS),
        1,
    ),
    "PNG, animated": Case(lambda: animated("PNG"), "is animated"),
    "PNG, cut short": Case(lambda: png(NOISE, 2)[:-100], "is cut short"),
    "PNG, flipped bit": Case(lambda: flipped(png(NOISE, 2), 300), "is damaged: "),
    "PNG, chunk of text that unpacks to 300 MB": Case(lambda: png(NOISE, 2, text_bomb(b"zTXt")), NOISE),
    "PNG, compressed international text that unpacks to 300 MB": Case(lambda: png(NOISE, 2, text_bomb(b"iTXt")), NOISE),
    "PNG, pixels missing": Case(lambda: png(NOISE, 2)[:33] + chunk(b"IEND", b""), SHORT),
    "PNG of 60000x60000": Case(lambda: sized(60_000, 60_000), "is 60000x60000, more than 25,000,000 pixels"),
    "PNG of 5000x5001": Case(lambda: sized(5000, 5001), "is 5000x5001, more than 25,000,000 pixels"),
    "JPEG of 65500x65500": Case(
        lambda: JPEG.replace(b"\x08\0\x10\0\x10\x03", b"\x08\xff\xdc\xff\xdc\x03"),
        "is 65500x65500, more than 1,600,000,000 pixels",
    ),
    "JPEG of 8200x6200, progressive": Case(
        lambda: saved(Image.fromarray(NOISE), "JPEG", progressive=True).replace(
            b"\x08\0\x10\0\x10\x03", struct.pack(">BHHB", 8, 6200, 8200, 3)
        ),
        "is 8200x6200, more than 50,000,000 pixels",
    ),
    "JPEG, cut short": Case(lambda: JPEG[:-100], SHORT),
    "WebP, animated": Case(lambda: animated("WEBP"), "is animated"),
    "WebP, cut short": Case(lambda: WEBP[:-100], "is cut short"),
    "WebP of 5001x5000": Case(
        lambda: WEBP.replace(WEBP[20:25], b"\x2f" + (4999 << 14 | 5000).to_bytes(4, "little"), 1),
        "is 5001x5000, more than 25,000,000 pixels",
    ),
    "WebP of 16383x16383": Case(  # more memory than the process has
        lambda: WEBP.replace(WEBP[20:25], b"\x2f" + (16382 << 14 | 16382).to_bytes(4, "little"), 1),
        SHORT + "could not create decoder object",
    ),
    "WebP of 16777216x16777216": Case(
        lambda: riff(b"VP8X" + struct.pack("<I", 10) + bytes(4) + b"\xff" * 6 + WEBP[12:]),
        SHORT + "could not create decoder object",
    ),
    "file of more than 64 MiB": Case(lambda: png(NOISE, 2) + bytes(64 << 20), "has more than 67,108,864 bytes"),
    "GIF named .png": Case(lambda: GIF, "is no PNG"),
    "PostScript named .png": Case(lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n", "is no PNG"),
    "HTML named .jpg": Case(lambda: b"<!DOCTYPE html><title>404</title>", "is no PNG"),
    "nothing": Case(lambda: b"", "is empty"),
    "PNG signature alone": Case(lambda: b"\x89PNG\r\n\x1a\n", "is cut short"),
    "JPEG signature alone": Case(lambda: b"\xff\xd8\xff", SHORT),
    "WebP signature alone": Case(lambda: riff(b""), SHORT),
}
