"""Resizing, gray, orientation and damage of decoded images; kinds of files are in `test_bad_data`."""

import functools
import io
import re
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import sklearn.datasets
from PIL import Image, ImageCms, ImageOps
from PIL.PngImagePlugin import PngInfo

from components.core.artifacts.datasets import ImageShape
from components.core.data import pixels
from components.core.data.pixels import Colors
from tests.faults.damage.image_cases import chunk, saved, text_bomb
from tests.faults.damage.image_cases import png as fast_png
from tests.inputs import color_profiles, png

AS_STORED: Colors = ("white", 0)
RAMP = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10


def decoded(
    content: bytes, height: int = 2, width: int = 4, channels: int = 3, resize: str = "fill", colors: Colors = AS_STORED
) -> np.ndarray:
    shape = ImageShape(height, width, channels)
    made = pixels.from_file(content, shape, resize, colors).pixels
    return np.frombuffer(made, np.uint8).reshape(height, width, channels)


@pytest.mark.parametrize(
    ("size", "resize", "expected"),
    [
        ((8, 8), "fill", False),
        ((80, 60), "fill", False),
        ((100, 70), "fill", False),
        ((100, 69), "fill", True),
        ((6, 9), "fill", True),
        ((900, 300), "fill", True),
        ((901, 299), "fill", True),
        ((900, 300), "fit", False),
        ((900, 300), "stretch", False),
    ],
)
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_an_image_that_loses_three_tenths_of_its_area_is_marked(
    size: tuple[int, int], resize: str, expected: bool, kind: str
) -> None:
    image = pixels.from_file(saved(Image.new("RGB", size), kind), ImageShape(8, 8, 3), resize)
    assert image.is_cropped == expected


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_what_counts_is_the_upright_image(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = saved(Image.new("RGB", (900, 300)), "JPEG", exif=exif)
    is_tall = orientation in (6, 8)
    for shape, is_same_shape in ((ImageShape(8, 24, 3), not is_tall), (ImageShape(24, 8, 3), is_tall)):
        assert pixels.from_file(content, shape, "fill").is_cropped != is_same_shape


def test_color_becomes_gray_by_luma_and_gray_becomes_color_by_repetition() -> None:
    gray = decoded(saved(Image.fromarray(RAMP)), channels=1)
    luma = (RAMP.astype(np.float64) @ [299, 587, 114]) / 1000  # ITU-R 601, as Pillow documents it for mode L
    np.testing.assert_allclose(gray[..., 0], luma, atol=1)
    np.testing.assert_array_equal(decoded(saved(Image.fromarray(gray[..., 0]))), gray.repeat(3, axis=2))


@functools.cache
def photo(width: int, height: int, orientation: int) -> bytes:
    enlarged = Image.fromarray(sklearn.datasets.load_sample_image("china.jpg")).resize((width, height))
    noisy = np.asarray(enlarged) + np.random.default_rng(0).normal(0, 8, (height, width, 1))
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)), "JPEG", quality=90, exif=exif)


@pytest.mark.parametrize("resize", ["fill", "fit", "stretch"])
@pytest.mark.parametrize(
    ("width", "height", "orientation"),
    [(2000, 1500, 1), (768, 1200, 1), (640, 427, 1), *((1023, 769, orientation) for orientation in range(1, 9))],
)
def test_a_photo_decoded_at_a_smaller_scale_is_near_that_of_all_its_pixels(
    width: int, height: int, orientation: int, resize: str
) -> None:
    """Compared with Pillow's filter on the whole photo. If all pixels are needed the bytes are the same."""
    content = photo(width, height, orientation)
    whole = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    for side in (24, 64, 200):
        expected = np.asarray(pixels.fitted(whole, ImageShape(side, side, 3), resize)).astype(int)
        difference = np.abs(decoded(content, side, side, 3, resize) - expected)
        is_reduced = min(width, height) >= 2 * pixels.JPEG_OVERSAMPLING * side
        assert difference.mean() < 0.5 if is_reduced else difference.max() == 0
        assert difference.max() <= 5


@pytest.mark.parametrize("seed", range(20))
def test_fitting_is_that_of_pillow(seed: int) -> None:
    generator = np.random.default_rng(seed)
    width, height, *asked = (int(side) for side in generator.integers(1, 60, 4))
    image = Image.fromarray(generator.integers(0, 256, (height, width, 3), np.uint8))
    for resize, fit in (("fill", ImageOps.fit), ("fit", ImageOps.pad), ("stretch", Image.Image.resize)):
        expected = fit(image, (asked[0], asked[1]), Image.Resampling.LANCZOS)
        assert pixels.fitted(image, ImageShape(asked[1], asked[0], 3), resize).tobytes() == expected.tobytes()


def exif_after_pixels(image: Image.Image, exif: Image.Exif) -> bytes:
    content = saved(image, exif=exif)
    start = content.index(b"eXIf") - 4
    end = start + 12 + struct.unpack_from(">I", content, start)[0]
    last = content.index(b"IEND") - 4
    assert end < last
    return content[:start] + content[end:last] + content[start:end] + content[last:]


@pytest.mark.parametrize(
    "form", ["PNG", "PNG at the end", "PNG profile", "PNG XMP", "JPEG", "JPEG XMP", "WEBP", "WEBP XMP"]
)
def test_orientation_is_found_wherever_pillow_finds_it(form: str) -> None:
    kind = form.partition(" ")[0]
    exif = Image.Exif()
    exif[0x0112] = 6
    xmp = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    noted, image = PngInfo(), Image.fromarray(RAMP)
    if form == "PNG profile":
        noted.add_text("Raw profile type exif", f"\nexif\n{len(exif.tobytes()):8}\n{exif.tobytes().hex()}\n")
        content = saved(image, pnginfo=noted)
    elif form == "PNG XMP":
        noted.add_itxt("XML:com.adobe.xmp", xmp)
        content = saved(image, pnginfo=noted)
    elif form == "PNG at the end":
        content = exif_after_pixels(image, exif)
    elif form.endswith("XMP"):
        content = saved(image, kind, xmp=xmp.encode())
    else:
        content = saved(image, kind, exif=exif)
    with Image.open(io.BytesIO(content)) as opened:
        expected = ImageOps.exif_transpose(opened)
    assert expected.size == (2, 4)
    np.testing.assert_array_equal(decoded(content, 4, 2), np.asarray(expected.convert("RGB")))


@pytest.mark.parametrize(("height", "width"), [(1, 1), (5, 7), (8, 8), (8, 3), (6, 6)])
def test_padding_keeps_the_pixels_of_smaller_images(height: int, width: int) -> None:
    image = np.random.default_rng(0).integers(1, 256, (height, width), np.uint8)
    result = decoded(saved(Image.fromarray(image)), 8, 8, 1, "pad")[..., 0]
    above, left = (8 - height) // 2, (8 - width) // 2
    around = ((above, 8 - height - above), (left, 8 - width - left))
    np.testing.assert_array_equal(result, np.pad(image, around))


@pytest.mark.parametrize(("height", "width"), [(9, 3), (3, 9), (30, 50), (8, 9)])
def test_padding_shrinks_larger_images_as_fit_does(height: int, width: int) -> None:
    content = saved(Image.fromarray(np.random.default_rng(0).integers(1, 256, (height, width, 3), np.uint8)))
    np.testing.assert_array_equal(decoded(content, 8, 8, 3, "pad"), decoded(content, 8, 8, 3, "fit"))


def test_plain_pixels_take_the_same_way() -> None:
    shape = ImageShape(2, 4, 3)
    assert pixels.from_pixels(RAMP.tobytes(), shape, shape, "fill", AS_STORED) == RAMP.tobytes()
    gray = pixels.from_pixels(RAMP.tobytes(), shape, ImageShape(2, 4, 1), "fill", AS_STORED)
    assert gray == decoded(saved(Image.fromarray(RAMP)), channels=1).tobytes()


def test_a_process_that_decodes_starts_without_numpy_or_color_management() -> None:
    program = "import sys; from components.preprocess.decode import decoder_process as _; print({*sys.modules})"
    started = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    assert b"'PIL.Image'" in started
    assert not re.search(b"'(numpy|PIL.ImageCms)'", started)


@pytest.mark.parametrize(("color", "bits"), png.KINDS)
@pytest.mark.parametrize("has_transparency", [False, True])
@pytest.mark.parametrize("interlace", [0, 1])
def test_every_kind_of_png_is_decoded_as_its_specification_says(
    color: int, bits: int, has_transparency: bool, interlace: int
) -> None:
    """Some values are few, so that some are the transparent one and others differ from it in the lowest bit."""
    random = np.random.default_rng(bits)
    values = random.integers(0, 1 << bits, 3)
    samples = random.choice([*values, *(values ^ 1)], (11, 13, png.CHANNELS[color])).astype(np.uint16)
    samples[7:] = random.integers(0, 1 << bits, samples[7:].shape)
    extra = [chunk(b"PLTE", random.bytes(3 << bits))] if color == 3 else []
    if has_transparency and color in (0, 2, 3):
        extra.append(chunk(b"tRNS", random.bytes(1 << bits) if color == 3 else samples[2, 3].astype(">u2").tobytes()))
    content = png.encoded(samples, color, bits, *extra, interlace=interlace)
    expected = png.decoded(content)
    on_white = 255 * (expected[..., :3] * expected[..., 3:] + 1 - expected[..., 3:])
    is_rounded_thrice = color in (4, 6) and bits == 16
    np.testing.assert_allclose(decoded(content, 11, 13), on_white, atol=1.5 if is_rounded_thrice else 0.5)
    expected[np.rint(255 * expected[..., 3]) == 0, :3] = 1
    np.testing.assert_allclose(decoded(content, 11, 13, 4), 255 * expected, atol=0.5)


def test_large_images_of_16_bits_are_scaled_to_the_nearest() -> None:
    values = np.random.default_rng(0).integers(0, 65536, (1100, 1500, 3)).astype(np.uint16)  # in two strips
    np.testing.assert_array_equal(decoded(fast_png(values, 2), 1100, 1500), np.rint(values / 257))


RANGES = [(color, bits, level) for color in (0, 2, 4, 6) for bits, level in ((8, 1), (8, 100), (16, 1), (16, 4095))]


@pytest.mark.parametrize(("color", "bits", "white_level"), [*RANGES, (0, 8, 4095), (2, 16, 65535)])
def test_the_white_level_becomes_white_in_files_and_in_plain_pixels(color: int, bits: int, white_level: int) -> None:
    channels, most, colors = png.CHANNELS[color], (1 << bits) - 1, ("white", white_level)
    samples = np.random.default_rng(0).integers(0, min(most, 2 * white_level) + 1, (5, 7, channels))
    if color in (4, 6):
        samples[..., -1] = most - samples[..., -1] // 2  # alpha, of which none is 0
    content = png.encoded(samples, color, bits)
    expected = png.decoded(content)
    expected[..., :3] = np.minimum(expected[..., :3] * most / min(white_level, most), 1)
    np.testing.assert_allclose(decoded(content, 5, 7, 4, colors=colors), 255 * expected, atol=0.5001)
    if channels != 2:
        stored, plain = ImageShape(5, 7, channels), samples.astype(f"<u{bits // 8}").tobytes()
        result = pixels.from_pixels(plain, stored, ImageShape(5, 7, 4), "fill", colors)
        assert result == decoded(content, 5, 7, 4, colors=colors).tobytes()


@pytest.mark.parametrize(
    "primaries", [color_profiles.DISPLAY_P3, color_profiles.ADOBE_RGB, color_profiles.PRO_PHOTO], ids=["P3", "A", "P"]
)
@pytest.mark.parametrize("kind", ["PNG RGB", "PNG RGBA", "PNG P", "JPEG RGB", "WEBP RGB", "WEBP RGBA"])
def test_colors_of_a_profile_become_those_of_srgb(primaries: tuple[tuple[float, ...], ...], kind: str) -> None:
    form, mode = kind.split()
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 9, 3), np.uint8))
    image = image.quantize(16) if mode == "P" else image.convert(mode)
    content = saved(image, form, icc_profile=color_profiles.profile(primaries), lossless=True)
    with Image.open(io.BytesIO(content)) as opened:
        stored = np.asarray(opened.convert("RGB"))
    np.testing.assert_allclose(decoded(content, 9, 9), color_profiles.to_srgb(stored, primaries), atol=1)


@pytest.mark.parametrize(
    ("mode", "profile"),
    [
        ("RGB", ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()),
        ("RGB", color_profiles.profile(color_profiles.DISPLAY_P3).replace(b"RGB ", b"GRAY")),
        ("RGB", color_profiles.profile(color_profiles.DISPLAY_P3)[:200]),
        ("RGB", b"junk"),
        ("L", color_profiles.profile(color_profiles.DISPLAY_P3)),
    ],
)
def test_profiles_that_are_srgb_or_damaged_or_do_not_fit_change_nothing(mode: str, profile: bytes) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 9, 3), np.uint8)).convert(mode)
    np.testing.assert_array_equal(decoded(saved(image, icc_profile=profile), 9, 9), np.asarray(image.convert("RGB")))


RED_BESIDE_HIDDEN_GREEN = np.full((32, 32, 4), (200, 30, 10, 255), np.uint8)
RED_BESIDE_HIDDEN_GREEN[:, 16:] = 0, 255, 0, 0


@pytest.mark.parametrize(
    ("background", "color"),
    [("white", (255, 255, 255)), ("black", (0, 0, 0)), ("#0A141e", (10, 20, 30)), ("mean", (200, 30, 10))],
)
@pytest.mark.parametrize("resize", ["fill", "fit", "stretch"])
def test_transparent_pixels_have_the_color_of_the_background(
    background: str, color: tuple[int, ...], resize: str
) -> None:
    """At the same size and smaller; in gray too; and none has a hidden color, or one that is mixed with it."""
    content, colors = saved(Image.fromarray(RED_BESIDE_HIDDEN_GREEN)), (background, 0)
    for side in (32, 12, 8):
        rgba = decoded(content, side, side, 4, resize, colors)
        assert rgba[0, 0].tolist() == [200, 30, 10, 255]
        assert (rgba[rgba[..., 3] == 0] == (*color, 0)).all()
        visible, part = rgba[rgba[..., 3] > 0, :3], rgba[rgba[..., 3] > 0, 3:] / 255
        np.testing.assert_allclose(visible * part, (200, 30, 10) * part, atol=4)
    assert decoded(content, 32, 32, 3, resize, colors)[0, 31].tolist() == [*color]
    assert abs(decoded(content, 32, 32, 1, resize, colors)[0, 31, 0] - np.dot(color, [0.299, 0.587, 0.114])) <= 1
    stored, plain = ImageShape(32, 32, 4), RED_BESIDE_HIDDEN_GREEN.tobytes()
    for channels in (1, 3, 4):
        expected = decoded(content, 32, 32, channels, resize, colors).tobytes()
        assert pixels.from_pixels(plain, stored, ImageShape(32, 32, channels), resize, colors) == expected


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("resize", ["fill", "fit", "pad", "stretch"])
def test_images_without_alpha_are_opaque_but_for_padding(mode: str, resize: str) -> None:
    values = np.random.default_rng(0).integers(1, 256, (40, 20, 3), np.uint8)
    content = saved(Image.fromarray(values).convert(mode))
    for side in (10, 64):
        rgba = decoded(content, side, side, 4, resize, ("#ff0000", 0))
        is_padding = rgba[..., 3] == 0
        assert is_padding.any() == (resize in ("fit", "pad"))
        assert (rgba[is_padding, :3] == (255, 0, 0)).all()
        assert (rgba[~is_padding, 3] == 255).all()
        np.testing.assert_array_equal(rgba[~is_padding, :3], decoded(content, side, side, 3, resize)[~is_padding])


@pytest.mark.parametrize(("width", "height", "line"), [(1, 2000, np.s_[:, 8]), (3000, 1, np.s_[8, :])])
@pytest.mark.parametrize("resize", ["fit", "pad"])
def test_very_long_pictures_become_a_line_of_one_pixel(width: int, height: int, line: Any, resize: str) -> None:
    expected = np.zeros((16, 16, 3))
    expected[line] = 9, 8, 7
    content = saved(Image.new("RGB", (width, height), (9, 8, 7)))
    np.testing.assert_array_equal(decoded(content, 16, 16, 3, resize), expected)


BAD_EXIF = b"\1\2\3" * 20


@pytest.mark.parametrize("kind", ["PNG eXIf", "PNG Raw profile type exif", "PNG xmp", "WEBP", "JPEG", "JPEG large"])
def test_a_whole_picture_is_used_if_its_metadata_is_damaged(kind: str) -> None:
    form, _, where = kind.partition(" ")
    side = 900 if where == "large" else 16
    options: dict[str, Any] = {"lossless": True} if form == "WEBP" else {"dpi": (72, 72)}
    whole = saved(Image.fromarray(RAMP).resize((side, side)), form, **options)
    if form == "PNG":
        text = b"\0\nexif\n  20\n" + b"zz" * 20
        about = chunk(b"eXIf", BAD_EXIF) if where == "eXIf" else chunk(b"tEXt", where.encode() + text)
        damaged = whole[:33] + about + whole[33:]
    else:
        damaged = saved(Image.fromarray(RAMP).resize((side, side)), form, exif=b"Exif\0\0" + BAD_EXIF, **options)
    np.testing.assert_array_equal(decoded(damaged, 16, 16), decoded(whole, 16, 16))


@pytest.mark.parametrize(
    "refused",
    [
        chunk(b"pHYs", b"\1"),
        chunk(b"gAMA", b""),
        chunk(b"cHRM", b"\0\0"),
        chunk(b"iCCP", b"name\0\7nothing"),
        chunk(b"sRGB", b""),
        chunk(b"iTXt", b"k\0\1\0\0\0no zlib"),
        text_bomb(b"zTXt"),
        text_bomb(b"iTXt"),
    ],
    ids=lambda part: part[4:8].decode(),
)
@pytest.mark.parametrize("color", [0, 2, 3, 6])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_png_is_used_whole_whatever_pillow_refuses_of_its_metadata(refused: bytes, color: int, is_last: bool) -> None:
    samples = np.random.default_rng(color).integers(0, 256, (16, 16, png.CHANNELS[color]), np.uint8)
    turned = Image.Exif()
    turned[0x0112] = 6
    extra = [chunk(b"PLTE", bytes(range(256)) * 3)] if color == 3 else []
    extra += [chunk(b"tRNS", bytes(256))] if color == 3 else []
    extra.append(chunk(b"eXIf", turned.tobytes()[6:]))
    whole = png.encoded(samples, color, 8, *extra)
    at = len(whole) - 12 if is_last else 33
    np.testing.assert_array_equal(decoded(whole[:at] + refused + whole[at:], 16, 16), decoded(whole, 16, 16))


@pytest.mark.parametrize(("width", "height", "progressive"), [(8160, 6120, True), (16320, 12240, False)])
@pytest.mark.parametrize("side", [64, 1024])
def test_jpeg_photos_of_50_to_200_megapixels_are_read(width: int, height: int, progressive: bool, side: int) -> None:
    gradient = Image.linear_gradient("L")
    content = saved(gradient.resize((width, height)), "JPEG", progressive=progressive)
    expected = np.asarray(gradient.resize((side, side), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(decoded(content, side, side, 1, "stretch")[..., 0] - expected).max() <= 3
