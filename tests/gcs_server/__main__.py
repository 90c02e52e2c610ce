"""`python -m tests.gcs_server [--port N] BUCKET ...`: the server by hand, until interrupted."""

import argparse
import contextlib
import threading

from tests.gcs_server.server import serving


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gcs_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0, the default, for any that is free")
    parser.add_argument("buckets", nargs="+", metavar="BUCKET", help="name of a bucket that it begins with")
    arguments = parser.parse_args()
    with serving(port=arguments.port) as server, contextlib.suppress(KeyboardInterrupt):
        for bucket in arguments.buckets:
            server.create_bucket(bucket)
        print(f"STORAGE_EMULATOR_HOST={server.url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
