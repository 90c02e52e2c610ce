"""The output at the end of a run."""
# mypy: disable-error-code="valid-type"

from tests.unit.pipeline.conftest import Desk


def test_a_run_ends_with_a_table_and_where_results_lie(desk: Desk) -> None:
    from kfp import dsl

    @dsl.container_component
    def evaluate(root: str, evaluation_uri: dsl.OutputPath(str), summary: dsl.OutputPath(str)) -> dsl.ContainerSpec:
        script = """
            mkdir -p "$1/evaluation" "$1/registry"; touch "$1/evaluation/samples.png" "$1/registry/champion.json"
            printf "$1/evaluation" > "$2"; printf "PROMOTE [FCD 3.1]" > "$3"
        """
        return dsl.ContainerSpec(image="none", command=["sh", "-ec", script, "e", root, evaluation_uri, summary])

    def pipeline(root: str) -> None:
        evaluate(root=root)

    found = desk.run(desk.compile(pipeline))
    lines = found.stdout.splitlines()
    assert lines[0].split() == ["stage", "state", "seconds", "what", "it", "made"]
    assert lines[1].split()[:2] == ["evaluate", "done"]
    assert lines[1].endswith("PROMOTE [FCD 3.1]")
    assert dict(line.split() for line in lines[3:]) == {
        "evaluation": f"{desk.root}/evaluation",
        "samples": f"{desk.root}/evaluation/samples.png",
        "champion": f"{desk.root}/registry/champion.json",
    }
