#!/usr/bin/env python3
"""A client of the daemon, as small as it can be: writes a model, has it loaded, and serves made-up requests.

    sample-client [--models FOLDER] [--root NAME] [--requests N]

Each request reads the weights in place and keeps what it computes in buffers of the daemon's. Without
--requests it goes on until it is ended. A daemon that is started again is connected to again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import tenure

ROWS, COLUMNS = 4096, 1024


def write_model(path: Path) -> None:
    """Writes one float32 matrix as a safetensors file, unless it is there."""
    if path.exists():
        return
    weights = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), dtype=np.float32)
    header = {"projection": {"dtype": "F32", "shape": [ROWS, COLUMNS], "data_offsets": [0, weights.nbytes]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_suffix(".partial")
    partial.write_bytes(len(text).to_bytes(8, "little") + text + weights.tobytes())
    partial.rename(path)


def serve(client: tenure.Client, path: str, requests: int | None) -> int:
    """Loads the model and serves so many requests; gives how many it served."""
    loaded = client.load("sample", path)
    print(f"sample is online: {loaded.reuse.value}, {loaded.bytes_copied} bytes copied", flush=True)
    served = 0
    with client.acquire("sample") as lease, client.open_pool(lease.device) as pool:
        weights = lease["projection"]
        while requests is None or served < requests:
            with pool.scope() as scope:
                inputs = scope.acquire((8, ROWS), "float32").array
                hidden = scope.acquire((8, COLUMNS), "float32").array
                inputs[...] = 1
                np.matmul(inputs, weights, out=hidden)
                served += 1
                if served == 1:
                    print(f"the first request's sum is {float(hidden[0].sum()):.3f}", flush=True)
                del inputs, hidden
            if requests is None:
                time.sleep(0.1)
        del weights
    return served


def main() -> None:
    """Connects, again and again."""
    parser = argparse.ArgumentParser(description="A client of Tenure that serves made-up requests.")
    parser.add_argument("--models", type=Path, default=Path("/models"), help="where to write the model")
    parser.add_argument("--root", default="models", help="what the daemon calls that folder")
    parser.add_argument("--requests", type=int, help="how many to serve; without end unless given")
    arguments = parser.parse_args()
    write_model(arguments.models / "sample.safetensors")
    while True:
        try:
            with tenure.connect(program="sample") as client:
                print(f"served {serve(client, f'{arguments.root}/sample.safetensors', arguments.requests)} requests")
                return
        except tenure.TenureError as error:
            if arguments.requests is not None or error.reason not in ("DAEMON_GONE", "DAEMON_UNREACHABLE"):
                raise
            print(f"waiting for the daemon: {error}", flush=True)
            time.sleep(1)


if __name__ == "__main__":
    main()
