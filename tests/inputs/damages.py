"""What becomes of a file on a bad disk."""

from pathlib import Path


def damages(content: bytes) -> dict[str, bytes | None]:
    """Return a file's content after each damage, by name; None if it is gone."""
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]
    return {"deleted": None, "cut": content[:-9], "one byte flipped": flipped, "empty": b""}


def damage(path: Path, how: str) -> None:
    """Damage a file that is not empty."""
    left = damages(path.read_bytes())[how]
    if left is None:
        path.unlink()
    else:
        path.write_bytes(left)
