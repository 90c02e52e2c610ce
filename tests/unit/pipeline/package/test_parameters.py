"""Parameters of a package, by the types that it gives them."""

from tests.unit.pipeline.conftest import Desk, Parts, messages


def test_parameters_of_any_package_are_typed(desk: Desk, parts: Parts) -> None:
    def typed(count: int, share: float) -> None:
        parts.shell(script='printf "%s" "$1" > "$2"', text=f"{count} {share}")

    wrong = desk.run(desk.compile(typed), "--count", "3.5", "--share", "half")
    assert wrong.returncode == 64
    assert [("count" in each, "share" in each) for each in messages(wrong)] == [(True, False), (False, True)]
