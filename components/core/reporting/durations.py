"""Durations as text, such as `45 s`, `2 min 05 s` and `44 h 10 min`."""


def duration(seconds: float) -> str:
    """Return a duration with its two largest units."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
