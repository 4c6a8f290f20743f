"""Times how PyTorch brings a safetensors file to the first GPU.

    torch_load.py FILE ROUNDS

Prints one JSON object: milliseconds by figure. Ends with 77, and says why on stderr, where it cannot.
"""

import json
import sys
import time
from collections.abc import Callable

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)


def milliseconds(work: Callable[[], object]) -> tuple[float, object]:
    """Gives how long `work` took until the device was done, and what it gave."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3, result


def main() -> int:
    """Measures and prints."""
    path, rounds = sys.argv[1], int(sys.argv[2])
    if not torch.cuda.is_available():
        print("torch sees no GPU", file=sys.stderr)
        return 77
    torch.cuda.init()
    on_host = load_file(path)

    figures: dict[str, list[float]] = {"torch_load_file_ms": [], "torch_safe_open_ms": [], "torch_copy_ms": []}
    for _ in range(rounds):
        torch.cuda.empty_cache()
        took, tensors = milliseconds(lambda: load_file(path, device="cuda:0"))
        figures["torch_load_file_ms"].append(took)
        for name, tensor in tensors.items():
            if not torch.equal(tensor.cpu().view(torch.uint8), on_host[name].view(torch.uint8)):
                print(f"other bytes in {name}", file=sys.stderr)
                return 1
        del tensors
        torch.cuda.empty_cache()

        def open_and_get() -> dict[str, torch.Tensor]:
            with safe_open(path, framework="pt", device="cuda:0") as file:
                return {name: file.get_tensor(name) for name in file.keys()}

        figures["torch_safe_open_ms"].append(milliseconds(open_and_get)[0])
        torch.cuda.empty_cache()
        took, _ = milliseconds(lambda: {name: tensor.to("cuda:0") for name, tensor in on_host.items()})
        figures["torch_copy_ms"].append(took)
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
