"""PNG by its specification (ISO/IEC 15948): a writer of every kind of pixels, and a reader of its own."""

import struct
import zlib
from collections.abc import Iterator

import numpy as np

from tests.faults.damage.image_cases import png_of

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by color type: gray, RGB, palette, gray with alpha, RGB with alpha
_BITS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
KINDS = [(color, bits) for color, allowed in _BITS.items() for bits in allowed]
# First row and column, and steps, of the passes of Adam7.
_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))


def encoded(samples: np.ndarray, color: int, bits: int, *extra: bytes, interlace: int = 0) -> bytes:
    """Return a file of samples [height, width, channels], its rows filtered in turn in all five ways."""
    packed = b""
    for part in _parts(samples, interlace):
        above = bytes(part[0].size * 2)
        for number, row in enumerate(part):
            ones = row.reshape(-1, 1).astype(np.uint16) >> np.arange(bits)[::-1] & 1
            raw = np.packbits(ones.astype(np.uint8)).tobytes()
            packed += bytes([number % 5]) + _filtered(number % 5, raw, above, CHANNELS[color] * bits // 8, 1)
            above = raw
    return png_of(samples.shape[1], samples.shape[0], bits, color, zlib.compress(packed), *extra, interlace=interlace)


def decoded(content: bytes) -> np.ndarray:
    """Return the pixels of a file with one IDAT as float64 [height, width, 4]: RGB and alpha from 0 to 1."""
    chunks, at = dict[bytes, bytes](), 8
    while at < len(content):
        (length,) = struct.unpack_from(">I", content, at)
        chunks[content[at + 4 : at + 8]] = content[at + 8 : at + 8 + length]
        at += 12 + length
    width, height, bits, color, _, _, interlace = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    packed, at, samples = zlib.decompress(chunks[b"IDAT"]), 0, np.zeros((height, width, CHANNELS[color]), int)
    for part in _parts(samples, interlace):
        length = -(-part[0].size * bits // 8)
        above = bytes(length)
        for row in part:
            above = _filtered(packed[at], packed[at + 1 : at + 1 + length], above, CHANNELS[color] * bits // 8, -1)
            ones = np.unpackbits(np.frombuffer(above, np.uint8))[: row.size * bits].reshape(row.size, bits)
            row[:] = (ones @ (1 << np.arange(bits)[::-1])).reshape(row.shape)
            at += 1 + length
    transparent = chunks.get(b"tRNS", b"")
    if color == 3:
        palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
        alpha = np.frombuffer(transparent.ljust(len(palette), b"\xff"), np.uint8)
        return np.column_stack([palette, alpha])[samples[..., 0]] / 255
    values, whole = samples / ((1 << bits) - 1), np.ones((height, width, 1))
    if transparent:
        whole[(samples == np.frombuffer(transparent, ">u2")).all(axis=-1)] = 0
    if color in (4, 6):
        values, whole = values[..., :-1], values[..., -1:]
    return np.dstack([np.broadcast_to(values, (height, width, 3)), whole])


def _parts(samples: np.ndarray, interlace: int) -> Iterator[np.ndarray]:
    for top, left, down, across in _PASSES if interlace else ((0, 0, 1, 1),):
        if (part := samples[top::down, left::across]).size:
            yield part


def _filtered(kind: int, row: bytes, above: bytes, step: int, sign: int) -> bytes:
    """Filter the bytes of a row, or undo it if the sign is -1; neighbors are of the row that is not filtered."""
    result, step = bytearray(), max(1, step)
    for at, value in enumerate(row):
        known = row if sign > 0 else result
        a, b, c = (known[at - step], above[at], above[at - step]) if at >= step else (0, above[at], 0)
        paeth = min((a, b, c), key=lambda neighbor: abs(a + b - c - neighbor))  # the first of equals
        result.append((value - sign * (0, a, b, (a + b) // 2, paeth)[kind]) % 256)
    return bytes(result)
