"""`python -m tests.contract_server [--port N]`: the contract server by hand, until interrupted."""

import argparse
import contextlib
import threading

from tests.contract_server.server import serving


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.contract_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0, the default, for any that is free")
    parser.add_argument("--token", default="", help="bearer token that every request must have")
    parser.add_argument("--cookie", default="", help="cookie that every request must have, as name=value")
    parser.add_argument("--multi-user", action="store_true", help="keep namespaces apart; `team-a` may be used")
    parser.add_argument("--version", default="2.16.1", help="of the Kubeflow that it answers as")
    parser.add_argument("--prefix", default="", help="path that it is below")
    with serving(**vars(parser.parse_args())) as server, contextlib.suppress(KeyboardInterrupt):
        print(f"{server.url}  (a contract server for tests, no Kubeflow server)", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
