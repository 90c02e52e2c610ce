"""python -m tests.system.runners.worker_pool PORT: Beam's worker pool for several task managers on one machine.

In a cluster each task manager has a pool beside it. Beam's own knows workers by ids that only one task manager's are
unlike, so that of two it would end the other's. Here a worker ends when its task manager leaves it.
"""

import socket
import sys

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer


class SharedPool(BeamFnExternalWorkerPoolServicer):
    """Starts workers, and ends none."""

    def StopWorker(
        self, stop_worker_request: beam_fn_api_pb2.StopWorkerRequest, unused_context: object
    ) -> beam_fn_api_pb2.StopWorkerResponse:
        return beam_fn_api_pb2.StopWorkerResponse()


if __name__ == "__main__":
    port = int(sys.argv[1])
    # Two pools would share a port without a word, and take each other's jobs.
    socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True).close()
    _, server = SharedPool.start(use_process=True, port=port)
    server.wait_for_termination()
