"""Decoding against pixels worked out by hand, and every kind of file that must be refused."""

import io
import struct
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo

from components.core.artifacts.datasets import ImageShape
from components.preprocess.decode import pixels

RAMP = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def decoded(content: bytes, height: int = 2, width: int = 4, channels: int = 3, resize: str = "fill") -> np.ndarray:
    found = pixels.from_file(content, ImageShape(height, width, channels), resize)
    return np.frombuffer(found, np.uint8).reshape(height, width, channels)


def luma(colours: np.ndarray) -> np.ndarray:
    """ITU-R 601, as Pillow documents it for mode L."""
    return (colours.astype(np.float64) @ [299, 587, 114]) / 1000


def test_pixels_of_the_right_shape_are_kept() -> None:
    found = decoded(encoded(Image.fromarray(RAMP)))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, RAMP)


def test_colour_becomes_grey_by_luma_and_grey_becomes_colour_by_repetition() -> None:
    grey = decoded(encoded(Image.fromarray(RAMP)), channels=1)
    np.testing.assert_allclose(grey[..., 0], luma(RAMP), atol=1)
    back = decoded(encoded(Image.fromarray(grey[..., 0])))
    np.testing.assert_array_equal(back, grey.repeat(3, axis=2))


def test_16_bit_grey_is_scaled_not_clipped() -> None:
    ramp = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    found = decoded(encoded(Image.fromarray(ramp)), 16, 16, 1)
    np.testing.assert_array_equal(found[..., 0], np.arange(256).reshape(16, 16))


def test_transparency_lies_on_white() -> None:
    colours = np.dstack([RAMP, np.array([[0, 255, 128, 0], [255, 51, 0, 255]], np.uint8)])
    alpha = colours[..., 3:] / 255
    np.testing.assert_allclose(
        decoded(encoded(Image.fromarray(colours))), colours[..., :3] * alpha + 255 * (1 - alpha), atol=1
    )


def test_palettes_one_bit_and_grey_with_alpha() -> None:
    palette = Image.new("P", (4, 1))
    palette.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    palette.putdata([0, 1, 2, 1])
    expected = np.array([[[10, 20, 30], [40, 50, 60], [70, 80, 90], [40, 50, 60]]])
    np.testing.assert_array_equal(decoded(encoded(palette), 1), expected)
    seen = expected.copy()
    seen[0, [1, 3]] = 255
    np.testing.assert_array_equal(decoded(encoded(palette, transparency=1), 1), seen)
    bits = Image.fromarray(np.array([[True, False, False, True]]))
    np.testing.assert_array_equal(decoded(encoded(bits), 1, 4, 1)[..., 0], [[255, 0, 0, 255]])
    grey_alpha = Image.fromarray(np.array([[[9, 255], [9, 0], [9, 255], [9, 0]]], np.uint8))
    np.testing.assert_array_equal(decoded(encoded(grey_alpha), 1, 4, 1)[..., 0], [[9, 255, 9, 255]])


def test_cmyk_jpeg() -> None:
    cyan = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    found = decoded(encoded(cyan, "JPEG", quality=100), 16, 16)
    np.testing.assert_allclose(found, np.broadcast_to([0, 255, 255], (16, 16, 3)), atol=4)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation: int) -> None:
    upright = np.zeros((8, 16), np.uint8)
    upright[:, 8:] = 80
    upright[:4] += 100
    undo = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.T,
        6: lambda a: np.rot90(a),
        7: lambda a: np.rot90(a.T, 2),
        8: lambda a: np.rot90(a, -1),
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(undo[orientation](upright)))
    for kind in ("PNG", "JPEG"):
        found = decoded(encoded(stored, kind, exif=exif), 8, 16, 1)
        np.testing.assert_allclose(found[..., 0].astype(int), upright, atol=3)


def exif_after_pixels(image: Image.Image, exif: Image.Exif) -> bytes:
    """A PNG file that says its orientation at the end, as the format allows."""
    content = encoded(image, exif=exif)
    start = content.index(b"eXIf") - 4
    end = start + 12 + struct.unpack_from(">I", content, start)[0]
    last = content.index(b"IEND") - 4
    assert end < last
    return content[:start] + content[end:last] + content[start:end] + content[last:]


@pytest.mark.parametrize(
    "said", ["PNG", "PNG at the end", "PNG profile", "PNG XMP", "JPEG", "JPEG XMP", "WEBP", "WEBP XMP"]
)
def test_orientation_is_found_wherever_pillow_finds_it(said: str) -> None:
    kind = said.partition(" ")[0]
    exif = Image.Exif()
    exif[0x0112] = 6
    xmp = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    noted, image = PngInfo(), Image.fromarray(RAMP)
    if said == "PNG profile":
        noted.add_text("Raw profile type exif", f"\nexif\n{len(exif.tobytes()):8}\n{exif.tobytes().hex()}\n")
        content = encoded(image, pnginfo=noted)
    elif said == "PNG XMP":
        noted.add_itxt("XML:com.adobe.xmp", xmp)
        content = encoded(image, pnginfo=noted)
    elif said == "PNG at the end":
        content = exif_after_pixels(image, exif)
    elif said.endswith("XMP"):
        content = encoded(image, kind, xmp=xmp.encode())
    else:
        content = encoded(image, kind, exif=exif)
    with Image.open(io.BytesIO(content)) as opened:
        expected = ImageOps.exif_transpose(opened)
    assert expected.size == (2, 4)
    np.testing.assert_array_equal(decoded(content, 4, 2), np.asarray(expected.convert("RGB")))


def test_policies_for_another_aspect() -> None:
    halves = np.zeros((10, 40), np.uint8)
    halves[:, 20:] = 200
    content = encoded(Image.fromarray(halves))
    filled, fit, stretched = (decoded(content, 20, 20, 1, policy)[..., 0] for policy in ("fill", "fit", "stretch"))
    assert filled.shape == fit.shape == stretched.shape == (20, 20)
    np.testing.assert_array_equal(filled[:, [0, -1]], [[0, 200]] * 20)
    assert (fit[:7] == 0).all()
    assert (fit[-7:] == 0).all()
    assert (fit[8:12, -3:] == 200).all()
    assert (stretched[:, -3:] == 200).all()
    assert (stretched[:, :3] == 0).all()


@pytest.mark.parametrize(("height", "width"), [(1, 1), (5, 7), (8, 8), (8, 3), (6, 6)])
def test_padding_keeps_the_pixels_of_smaller_images(height: int, width: int) -> None:
    image = np.random.default_rng(0).integers(1, 256, (height, width), np.uint8)
    found = decoded(encoded(Image.fromarray(image)), 8, 8, 1, "pad")[..., 0]
    above, left = (8 - height) // 2, (8 - width) // 2
    around = ((above, 8 - height - above), (left, 8 - width - left))
    np.testing.assert_array_equal(found, np.pad(image, around))


@pytest.mark.parametrize(("height", "width"), [(9, 3), (3, 9), (30, 50), (8, 9)])
def test_padding_shrinks_larger_images_as_fit_does(height: int, width: int) -> None:
    content = encoded(Image.fromarray(np.random.default_rng(0).integers(1, 256, (height, width, 3), np.uint8)))
    np.testing.assert_array_equal(decoded(content, 8, 8, 3, "pad"), decoded(content, 8, 8, 3, "fit"))


def test_shrinking_is_antialiased() -> None:
    stripes = np.zeros((64, 64), np.uint8)
    stripes[:, ::2] = 200
    found = decoded(encoded(Image.fromarray(stripes)), 8, 8, 1)
    np.testing.assert_allclose(found[:, 1:-1].astype(int), 100, atol=2)  # the border sees one side only


def test_plain_pixels_take_the_same_way() -> None:
    shape = ImageShape(2, 4, 3)
    assert pixels.from_pixels(RAMP.tobytes(), shape, shape, "fill") == RAMP.tobytes()
    grey = pixels.from_pixels(RAMP.tobytes(), shape, ImageShape(2, 4, 1), "fill")
    assert grey == decoded(encoded(Image.fromarray(RAMP)), channels=1).tobytes()
    large = pixels.from_pixels(bytes(12), ImageShape(3, 4, 1), ImageShape(6, 8, 3), "stretch")
    assert large == bytes(6 * 8 * 3)


def bomb(width: int, height: int) -> bytes:
    """A PNG file whose header says a size, with no pixels to speak of."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"<html>404", "is no PNG, JPEG or WebP file: it starts with b'<html>40'"),
        (encoded(NOISE, "GIF"), "is no PNG, JPEG or WebP file"),
        (encoded(NOISE)[:-200], "is cut short"),
        (encoded(NOISE, "JPEG")[:-200], "cannot be decoded"),
        (encoded(NOISE)[:60], "is cut short"),
        (b"\x89PNG\r\n\x1a\nnothing", "cannot be decoded"),
        (b"\xff\xd8\xffnothing", "cannot be decoded"),
        (bomb(60000, 60000), "is 60000x60000, more than 25,000,000 pixels"),
        (bomb(5001, 5000), "is 5001x5000, more than 25,000,000 pixels"),
        (encoded(NOISE, "PNG", save_all=True, append_images=[NOISE.rotate(90)]), "is animated"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(content: bytes, reason: str) -> None:
    with pytest.raises(pixels.UndecodableImage) as raised:
        decoded(content)
    assert reason in str(raised.value)


def test_no_damage_raises_anything_else() -> None:
    generator = np.random.default_rng(1)
    for content in (encoded(NOISE), encoded(NOISE, "JPEG"), encoded(NOISE.convert("P"))):
        for _ in range(150):
            damaged = bytearray(content)
            for place in generator.integers(0, len(content), 3):
                damaged[place] = generator.integers(0, 256)
            try:
                assert decoded(bytes(damaged)).shape == (2, 4, 3)
            except pixels.UndecodableImage:
                continue


def test_a_process_that_decodes_starts_without_numpy() -> None:
    program = "import sys; from components.preprocess.decode import decoder_process; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"False\n"
