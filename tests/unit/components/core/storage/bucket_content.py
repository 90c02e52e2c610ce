"""Contents of the simulated bucket."""

from tests.fakes.gcs.server import Server


def bucket_content(server: Server) -> dict[str, bytes]:
    return {name: stored.content for name, stored in server.objects["b"].items()}
