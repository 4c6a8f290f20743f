"""Turns an ONNX model into the trace that `tenurectl plan` lays out: what its operators read and write.

    python3 -m tenure.onnx_trace model.onnx --batch 8 --dim sequence=128 > trace.jsonl

Takes the `onnx` package. Weights and other constants are no buffers and are left out, and so are
tensors without an element. What Reshape, Squeeze, Unsqueeze, Flatten, Identity, and Dropout outside
of training give is a view of what they take. Graph inputs are there from the start, graph outputs to
the end. A tensor whose size cannot be known, and a node with a graph or function of its own, are
refused by name.

Exit codes: 0 done, 2 the command line makes no sense, 3 `onnx` is missing, 4 no trace can be made.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

_DONE, _NO_ONNX, _NO_TRACE = 0, 3, 4

# Weights of more bytes say nothing about shapes.
_MOST_SHAPE_BYTES = 1 << 16

# Bits of an element, by its number in TensorProto.DataType: older releases of `onnx` lack names.
_ELEMENT_BITS = {
    1: 32,  # FLOAT
    2: 8,  # UINT8
    3: 8,  # INT8
    4: 16,  # UINT16
    5: 16,  # INT16
    6: 32,  # INT32
    7: 64,  # INT64
    9: 8,  # BOOL
    10: 16,  # FLOAT16
    11: 64,  # DOUBLE
    12: 32,  # UINT32
    13: 64,  # UINT64
    14: 64,  # COMPLEX64
    15: 128,  # COMPLEX128
    16: 16,  # BFLOAT16
    17: 8,  # FLOAT8E4M3FN
    18: 8,  # FLOAT8E4M3FNUZ
    19: 8,  # FLOAT8E5M2
    20: 8,  # FLOAT8E5M2FNUZ
    21: 4,  # UINT4, two in a byte
    22: 4,  # INT4
    23: 4,  # FLOAT4E2M1
    24: 8,  # FLOAT8E8M0
}
_BOOL = 9
_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Dropout"})


class TraceError(Exception):
    """Why no trace can be made of a model."""


@dataclass(frozen=True)
class Sizes:
    """What a model leaves open.

    Attributes
    ----------
    dims : dict[str, int]
        The sizes of named dimensions.
    batch : int | None
        The size of the first dimension of each graph input that has none.
    alignment : int
        Of every buffer's offset, in bytes.
    """

    dims: dict[str, int] = field(default_factory=dict)
    batch: int | None = None
    alignment: int = 256


def element_bits(element_type: int) -> int:
    """Gives the bits of one element of a `TensorProto.DataType`.

    Raises
    ------
    TraceError
        For strings, and types that are not known.
    """
    if element_type not in _ELEMENT_BITS:
        raise TraceError(f"element type {element_type} has no size that is known")
    return _ELEMENT_BITS[element_type]


def trace_lines(model: onnx.ModelProto, sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Gives the trace of a model, an object for each line. `model` is changed.

    Raises
    ------
    TraceError
        If a size cannot be known, or a node hides what it holds.
    """
    return _Tracer(model, sizes).lines()


class _Tracer:
    def __init__(self, model: onnx.ModelProto, sizes: Sizes) -> None:
        self._alignment = sizes.alignment
        self._dims = dict(sizes.dims)
        self._unused = set(sizes.dims)
        graph = model.graph
        # Older models list their weights among the inputs as well.
        self._constants = {each.name for each in graph.initializer}
        self._constants |= {each.values.name for each in graph.sparse_initializer}
        self._false = {each.name for each in graph.initializer if _is_false(each)}
        self._inputs = [each for each in graph.input if each.name not in self._constants]
        self._functions = {(each.domain, each.name) for each in getattr(model, "functions", [])}
        if sizes.batch is not None:
            self._give_batch(sizes.batch)
        for values in (self._inputs, graph.value_info, graph.output):
            self._give_dims(values)
        self._graph = _inferred(model).graph
        self._read = {each for node in self._graph.node for each in node.input}
        self._read |= {each.name for each in self._graph.output}
        self._types = {
            each.name: each.type
            for values in (self._graph.value_info, self._graph.output, self._graph.input)
            for each in values
        }
        # What was written or is given so far; those without an element are no buffers.
        self._known: set[str] = set()
        self._empty: set[str] = set()

    def lines(self) -> Iterator[dict[str, Any]]:
        for value in self._inputs:
            size = self._bytes_of(value.name)
            if self._is_buffer(value.name, size):
                yield {"tensor": value.name, **self._places(size)}
        step = 0
        for node in self._graph.node:
            line = self._operator(node)
            if line is not None:
                yield {"step": step, **line}
                step += 1
        outputs = [each.name for each in self._graph.output]
        yield {"outputs": list(dict.fromkeys(self._buffers(outputs, "the graph")))}
        if self._unused:
            raise TraceError(f"no dimension is called {', '.join(sorted(self._unused))}")

    def _operator(self, node: onnx.NodeProto) -> dict[str, Any] | None:
        """Gives the line of a node; None if it only makes constants."""
        named = f"{node.op_type} '{node.name or ', '.join(node.output)}'"
        if any(each.HasField("g") or each.graphs for each in node.attribute):
            raise TraceError(f"{named} has a graph of its own, whose buffers cannot be planned")
        if (node.domain, node.op_type) in self._functions:
            raise TraceError(f"{named} is a function of the model, whose buffers cannot be planned")
        written = [each for each in node.output if each]
        views = self._views(node)
        if views:  # no Dropout makes a mask that nobody asks for
            written = written[:1] + [each for each in written[1:] if each in self._read]
        if node.op_type == "Constant" or (views and node.input[0] in self._constants):
            self._constants.update(written)
            if any(_is_false(each.t) for each in node.attribute):
                self._false.update(written)
            return None
        inputs = list(dict.fromkeys(self._buffers(node.input, named)))
        outputs: list[dict[str, Any]] = []
        for name in written:
            size = self._bytes_of(name)
            if not self._is_buffer(name, size):
                continue
            place = self._places(size)
            if views and name == node.output[0]:
                place["alias_of"] = node.input[0]
            outputs.append({"name": name, **place})
        return {"op": node.op_type, "inputs": inputs, "outputs": outputs}

    def _views(self, node: onnx.NodeProto) -> bool:
        """Tells whether the first output of a node is a view of its first input."""
        if node.domain not in ("", "ai.onnx") or node.op_type not in _VIEWS:
            return False
        # Since opset 12 an input says whether this is training.
        if node.op_type == "Dropout" and len(node.input) > 2 and node.input[2]:
            return node.input[2] in self._false
        return True

    def _buffers(self, names: Iterable[str], reader: str) -> Iterator[str]:
        """Gives those of `names` that are buffers."""
        for name in names:
            if not name or name in self._constants or name in self._empty:
                continue
            if name not in self._known:
                raise TraceError(f"{reader} reads '{name}' before anything has written it")
            yield name

    def _is_buffer(self, name: str, size: int) -> bool:
        (self._known if size > 0 else self._empty).add(name)
        return size > 0

    def _places(self, size: int) -> dict[str, Any]:
        return {"size": size, "alignment": self._alignment}

    def _bytes_of(self, name: str) -> int:
        kind = self._types.get(name)
        if kind is None or not kind.HasField("tensor_type"):
            raise TraceError(f"'{name}' is no tensor of a type that is known")
        tensor = kind.tensor_type
        if not tensor.HasField("shape"):
            raise TraceError(f"the shape of '{name}' is not known")
        shape = [self._size_of(dim, name, axis) for axis, dim in enumerate(tensor.shape.dim)]
        try:
            bits = element_bits(tensor.elem_type)
        except TraceError as error:
            raise TraceError(f"'{name}': {error}") from None
        return (math.prod(shape) * bits + 7) // 8

    def _size_of(self, dim: Any, name: str, axis: int) -> int:
        if _is_known(dim):
            return int(dim.dim_value)
        if dim.dim_param in self._dims:
            self._unused.discard(dim.dim_param)
            return self._dims[dim.dim_param]
        if dim.dim_param:
            raise TraceError(
                f"'{name}' has a dimension '{dim.dim_param}'; give --dim '{dim.dim_param}=N'"
            )
        help_with = "; give --batch N" if axis == 0 else ""
        raise TraceError(f"dimension {axis} of '{name}' is not known{help_with}")

    def _give_batch(self, batch: int) -> None:
        """Writes the batch into the inputs; a name that it has there means it everywhere."""
        for value in self._inputs:
            for dim in value.type.tensor_type.shape.dim[:1]:
                if dim.dim_param and dim.dim_param not in self._dims:
                    self._dims[dim.dim_param] = batch
                elif not dim.dim_param and not _is_known(dim):
                    dim.dim_value = batch

    def _give_dims(self, values: Iterable[onnx.ValueInfoProto]) -> None:
        """Writes the sizes that are given into shapes, for the inference to go on from."""
        for value in values:
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param in self._dims:
                    self._unused.discard(dim.dim_param)
                    dim.dim_value = self._dims[dim.dim_param]


def _is_known(dim: Any) -> bool:
    return bool(dim.HasField("dim_value") and dim.dim_value >= 0)


def _is_false(tensor: onnx.TensorProto) -> bool:
    """Tells whether a constant is a bool that is known to be false."""
    is_here = tensor.data_type == _BOOL and not tensor.external_data
    return is_here and not any(tensor.raw_data or tensor.int32_data)


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    from google.protobuf.message import EncodeError
    from onnx.shape_inference import InferenceError, infer_shapes

    for weight in model.graph.initializer:
        if len(weight.raw_data) > _MOST_SHAPE_BYTES:
            weight.ClearField("raw_data")
    try:
        return infer_shapes(model, data_prop=True)
    except (EncodeError, InferenceError, RuntimeError, ValueError) as error:
        raise TraceError(f"the shapes cannot be inferred: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _load(path: str) -> onnx.ModelProto:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        if path == "-":
            return onnx.load_model_from_string(sys.stdin.buffer.read())
        return onnx.load(path, load_external_data=False)
    except OSError as error:
        raise TraceError(error.strerror or _one_line(error)) from None
    except (DecodeError, ValueError, TypeError) as error:
        raise TraceError(f"no ONNX model: {_one_line(error)}") from None


def _dim(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not size.isdecimal():
        raise argparse.ArgumentTypeError(f"not NAME=N: {text}")
    return name, int(size)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"no number: {text}")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Prints the trace of a model and gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="python3 -m tenure.onnx_trace",
        description="Prints what the operators of an ONNX model read and write, for `tenurectl plan`.",
    )
    parser.add_argument("model", help="an ONNX file; - is standard input")
    parser.add_argument(
        "--dim",
        type=_dim,
        action="append",
        default=[],
        metavar="NAME=N",
        help="the size of a dimension that the model leaves open",
    )
    parser.add_argument(
        "--batch",
        type=_count,
        metavar="N",
        help="the first dimension of each input that leaves it open",
    )
    parser.add_argument(
        "--alignment", type=_count, default=256, metavar="N", help="of every buffer, in bytes [256]"
    )
    options = parser.parse_args(arguments)
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        print(
            f"an ONNX file takes the Python package `onnx` to read, as from apt-get install "
            f"python3-onnx or pip install onnx; {_one_line(error)}",
            file=sys.stderr,
        )
        return _NO_ONNX
    sizes = Sizes(dict(options.dim), options.batch, options.alignment)
    try:
        lines = list(trace_lines(_load(options.model), sizes))
    except TraceError as error:
        print(f"{options.model}: {error}", file=sys.stderr)
        return _NO_TRACE
    for line in lines:
        print(json.dumps(line))
    return _DONE


if __name__ == "__main__":
    sys.exit(main())
