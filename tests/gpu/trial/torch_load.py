"""Times how PyTorch brings a safetensors file to the first GPU.

    torch_load.py FILE ROUNDS

Prints one JSON object: milliseconds by figure. Ends with 77, and says why on stderr, where it cannot.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import TypeVar

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)


Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Gives how many milliseconds passed until the device had done `work`, and what it gave."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3, result


def open_and_get(path: str) -> dict[str, torch.Tensor]:
    """Brings each tensor by itself."""
    with safe_open(path, framework="pt", device="cuda:0") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def same_bytes(on_device: torch.Tensor, on_host: torch.Tensor) -> bool:
    """Compares bytes, whatever numbers they are."""
    return torch.equal(on_device.cpu().view(torch.uint8), on_host.view(torch.uint8))


def main() -> int:
    """Measures and prints."""
    path, rounds = sys.argv[1], int(sys.argv[2])
    if not torch.cuda.is_available():
        print("torch sees no GPU", file=sys.stderr)
        return 77
    torch.cuda.init()
    on_host = load_file(path)

    figures: dict[str, list[float]] = {
        "torch_load_file_ms": [],
        "torch_safe_open_ms": [],
        "torch_copy_ms": [],
    }
    for _ in range(rounds):
        torch.cuda.empty_cache()
        took, loaded = timed(lambda: load_file(path, device="cuda:0"))
        figures["torch_load_file_ms"].append(took)
        if wrong := [name for name in on_host if not same_bytes(loaded[name], on_host[name])]:
            print(f"other bytes in {wrong[0]}", file=sys.stderr)
            return 1
        del loaded
        torch.cuda.empty_cache()
        figures["torch_safe_open_ms"].append(timed(lambda: open_and_get(path))[0])
        torch.cuda.empty_cache()
        took = timed(lambda: {name: tensor.to("cuda:0") for name, tensor in on_host.items()})[0]
        figures["torch_copy_ms"].append(took)
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
