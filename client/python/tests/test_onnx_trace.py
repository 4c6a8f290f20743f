"""Small ONNX models and what their traces say."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tenure import onnx_trace
from tenure.onnx_trace import Sizes, TraceError, element_bits, trace_lines

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

BINARIES = Path(os.environ.get("TENURE_BIN_DIR", "build/release/bin")).resolve()
FLOAT = TensorProto.FLOAT


def value(name: str, shape: list[Any] | None, element: int = FLOAT) -> Any:
    """An input or output of a graph."""
    return helper.make_tensor_value_info(name, element, shape)


def model(
    nodes: list[Any],
    inputs: list[Any],
    outputs: list[Any],
    weights: list[Any] | None = None,
    values: list[Any] | None = None,
    **options: Any,
) -> Any:
    """A model of one graph."""
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights or [], value_info=values or [])
    opsets = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opsets, **options)


def weight(name: str, shape: list[int]) -> Any:
    """A weight of zeros."""
    count = 1
    for size in shape:
        count *= size
    return helper.make_tensor(name, FLOAT, shape, [0.0] * count)


def shape_of(name: str, shape: list[int]) -> Any:
    """A constant that is a shape."""
    return helper.make_tensor(name, TensorProto.INT64, [len(shape)], shape)


def two_layers(batch: Any = 2) -> Any:
    """x -> MatMul -> Relu -> Reshape -> Softmax."""
    return model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("Reshape", ["r", "to"], ["v"]),
            helper.make_node("Softmax", ["v"], ["y"]),
        ],
        [value("x", [batch, 16])],
        [value("y", [batch, 2, 4])],
        [weight("w", [16, 8]), shape_of("to", [-1, 2, 4])],
    )


def lines_of(made: Any, sizes: Sizes | None = None) -> list[dict[str, Any]]:
    """The trace of a model."""
    return list(trace_lines(made, sizes or Sizes()))


def written(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the operators of a trace write, by name."""
    return {each["name"]: each for line in lines if "op" in line for each in line["outputs"]}


def test_a_trace_says_what_operators_read_and_write() -> None:
    assert lines_of(two_layers()) == [
        {"tensor": "x", "size": 128, "alignment": 256},
        {
            "step": 0,
            "op": "MatMul",
            "inputs": ["x"],
            "outputs": [{"name": "h", "size": 64, "alignment": 256}],
        },
        {
            "step": 1,
            "op": "Relu",
            "inputs": ["h"],
            "outputs": [{"name": "r", "size": 64, "alignment": 256}],
        },
        {
            "step": 2,
            "op": "Reshape",
            "inputs": ["r"],
            "outputs": [{"name": "v", "size": 64, "alignment": 256, "alias_of": "r"}],
        },
        {
            "step": 3,
            "op": "Softmax",
            "inputs": ["v"],
            "outputs": [{"name": "y", "size": 64, "alignment": 256}],
        },
        {"outputs": ["y"]},
    ]


def test_sizes_that_are_left_open_are_given_by_name_or_as_the_batch() -> None:
    for batch, sizes in (
        ("n", Sizes({"n": 10})),
        ("n", Sizes(batch=10)),
        (None, Sizes(batch=10)),
        (10, Sizes(batch=99)),
    ):
        lines = lines_of(two_layers(batch), sizes)
        assert lines[0]["size"] == 640
        assert [each["size"] for each in written(lines).values()] == [320] * 4
    assert lines_of(two_layers(), Sizes(alignment=1))[0]["alignment"] == 1


def test_what_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(TraceError, match="'x' has a dimension 'n'; give --dim 'n=N'"):
        lines_of(two_layers("n"))
    with pytest.raises(TraceError, match="dimension 0 of 'x' is not known; give --batch N"):
        lines_of(two_layers(None))
    with pytest.raises(TraceError, match="no dimension is called m"):
        lines_of(two_layers("n"), Sizes({"n": 1, "m": 2}))
    made = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", None)], [value("y", None)])
    with pytest.raises(TraceError, match="the shape of 'x' is not known"):
        lines_of(made)
    made = model(
        [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Neg", ["i"], ["y"])],
        [value("x", [4])],
        [value("y", [1, 4], TensorProto.INT64)],
    )
    with pytest.raises(TraceError, match="dimension.* of 'i'|'i' has a dimension"):
        lines_of(made)
    made = model(
        [helper.make_node("Identity", ["x"], ["y"])],
        [value("x", [4], TensorProto.STRING)],
        [value("y", [4], TensorProto.STRING)],
    )
    with pytest.raises(TraceError, match="'x': element type 8 has no size"):
        lines_of(made)
    made = model([helper.make_node("Add", ["x", "z"], ["y"])], [value("x", [4])], [value("y", [4])])
    with pytest.raises(TraceError, match="reads 'z' before"):
        lines_of(made)


def test_every_operator_that_only_reshapes_gives_a_view() -> None:
    made = model(
        [
            helper.make_node("Unsqueeze", ["x", "axes"], ["a"]),
            helper.make_node("Squeeze", ["a", "axes"], ["b"]),
            helper.make_node("Flatten", ["b"], ["c"]),
            helper.make_node("Identity", ["c"], ["d"]),
            helper.make_node("Dropout", ["d"], ["e", "unread"]),
            helper.make_node("Dropout", ["e", "", "off"], ["f", "mask"]),
            helper.make_node("Dropout", ["f", "", "on"], ["g"]),
            helper.make_node("Where", ["mask", "g", "f"], ["y"]),
        ],
        [value("x", [4, 8])],
        [value("y", [4, 8])],
        [
            shape_of("axes", [0]),
            helper.make_tensor("off", TensorProto.BOOL, [], [False]),
            helper.make_tensor("on", TensorProto.BOOL, [], [True]),
        ],
    )
    viewed = {name: each.get("alias_of") for name, each in written(lines_of(made)).items()}
    assert viewed == {
        "a": "x",
        "b": "a",
        "c": "b",
        "d": "c",
        "e": "d",
        "f": "e",
        "mask": None,
        "g": None,
        "y": None,
    }


def test_weights_and_constants_are_no_buffers() -> None:
    made = model(
        [
            helper.make_node("Constant", [], ["k"], value=weight("k", [4])),
            helper.make_node("Identity", ["w"], ["same"]),
            helper.make_node("Reshape", ["same", "to"], ["flat"]),
            helper.make_node("Add", ["x", "k"], ["a"]),
            helper.make_node("Add", ["a", "flat"], ["y"]),
        ],
        # As models before IR 4 do, the weights stand among the inputs too.
        [value("x", [4]), value("w", [2, 2])],
        [value("y", [4]), value("k", [4])],
        [weight("w", [2, 2]), shape_of("to", [4])],
    )
    lines = lines_of(made)
    assert [line.get("tensor") or line.get("op") for line in lines] == ["x", "Add", "Add", None]
    assert [line.get("inputs") for line in lines[1:3]] == [["x"], ["a"]]
    assert [line.get("step") for line in lines[1:3]] == [0, 1]
    assert lines[-1] == {"outputs": ["y"]}


def test_large_weights_are_not_needed_for_shapes() -> None:
    big = helper.make_tensor("w", FLOAT, [256, 256], bytes(256 * 256 * 4), raw=True)
    made = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [value("x", [2, 256])],
        [value("y", [2, 256])],
        [big],
    )
    assert written(lines_of(made))["y"]["size"] == 2048


def test_tensors_without_an_element_are_no_buffers() -> None:
    made = model(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Concat", ["a", "z"], ["y"], axis=0),
        ],
        [value("x", [0, 4]), value("z", [3, 4])],
        [value("y", [3, 4])],
    )
    lines = lines_of(made)
    assert lines[0]["tensor"] == "z"
    assert lines[1]["outputs"] == [] and lines[2]["inputs"] == ["z"]


def test_an_output_that_is_there_twice_or_is_an_input_is_named_once() -> None:
    made = model(
        [helper.make_node("Mul", ["x", "x"], ["y"])],
        [value("x", [4])],
        [value("y", [4]), value("x", [4])],
    )
    lines = lines_of(made)
    assert lines[1]["inputs"] == ["x"]
    assert lines[-1] == {"outputs": ["y", "x"]}


def test_what_hides_its_buffers_is_refused() -> None:
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["b"])], "branch", [], [value("b", [4])]
    )
    made = model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)],
        [value("x", [4]), value("c", [], TensorProto.BOOL)],
        [value("y", [4])],
    )
    with pytest.raises(TraceError, match="If 'y' has a graph of its own"):
        lines_of(made)
    function = helper.make_function(
        "mine",
        "Twice",
        ["p"],
        ["q"],
        [helper.make_node("Add", ["p", "p"], ["q"])],
        [helper.make_opsetid("", 13)],
    )
    made = model(
        [helper.make_node("Twice", ["x"], ["y"], domain="mine", name="t")],
        [value("x", [4])],
        [value("y", [4])],
        functions=[function],
    )
    made.opset_import.append(helper.make_opsetid("mine", 1))
    with pytest.raises(TraceError, match="Twice 't' is a function of the model"):
        lines_of(made)


@pytest.mark.parametrize(
    ("element", "size"),
    [
        ("FLOAT", 12), ("DOUBLE", 24), ("FLOAT16", 6), ("BFLOAT16", 6), ("BOOL", 3), ("INT8", 3),
        ("UINT16", 6), ("INT64", 24), ("COMPLEX64", 24), ("FLOAT8E5M2", 3), ("INT4", 2),
        ("UINT4", 2),
    ],
)  # fmt: skip
def test_elements_have_the_size_of_their_type(element: str, size: int) -> None:
    number = getattr(TensorProto, element, None)
    if number is None:  # the release of `onnx` does not know it yet
        assert element_bits({"FLOAT8E5M2": 19, "INT4": 22, "UINT4": 21}[element]) * 3 <= size * 8
        return
    made = model(
        [helper.make_node("Identity", ["x"], ["y"])],
        [value("x", [3], number)],
        [value("y", [3], number)],
    )
    assert lines_of(made)[0]["size"] == size


def test_the_program_prints_lines_and_tells_failures_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(two_layers("n"), str(path))
    assert onnx_trace.main([str(path), "--dim", "n=2"]) == 0
    printed = capsys.readouterr().out
    assert [json.loads(line) for line in printed.splitlines()] == lines_of(two_layers())
    assert onnx_trace.main([str(path)]) == 4
    assert capsys.readouterr().err == f"{path}: 'x' has a dimension 'n'; give --dim 'n=N'\n"
    for unread in (tmp_path / "none.onnx", tmp_path):
        assert onnx_trace.main([str(unread)]) == 4
    path.write_bytes(b"nonsense")
    assert onnx_trace.main([str(path)]) == 4
    assert capsys.readouterr().err.count("\n") == 3
    for nonsense in (["--dim", "n"], ["--dim", "=2"], ["--dim", "n=-1"], ["--batch", "two"]):
        with pytest.raises(SystemExit) as ended:
            onnx_trace.main([str(path), *nonsense])
        assert ended.value.code == 2
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert onnx_trace.main([str(path)]) == 3
    assert "pip install onnx" in capsys.readouterr().err


def test_the_program_reads_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(two_layers().SerializeToString()))
    monkeypatch.setattr(sys, "stdin", stream)
    assert onnx_trace.main(["-"]) == 0
    assert capsys.readouterr().out.count("\n") == 6


def test_tenurectl_plans_a_model(tmp_path: Path) -> None:
    path = tmp_path / "a model; $(touch x).onnx"
    onnx.save(two_layers("n"), str(path))
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    environment = {
        **os.environ,
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(onnx_trace.__file__).parents[1]),
    }

    def plan(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(BINARIES / "tenurectl"), "--json", "plan", str(path), *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, cwd=tmp_path
        )

    planned = plan("--dim", "n=2")
    assert planned.returncode == 0, planned.stderr
    report = json.loads(planned.stdout)
    assert (report["buffers"], report["height"]) == (5, 320)
    assert report["offsets"]["v"] == report["offsets"]["r"]
    refused = plan()
    assert refused.returncode == 1
    error = json.loads(refused.stderr)["error"]
    assert error["reason"] == "INVALID_PLAN_INPUT"
    assert "give --dim" in error["message"]
    assert not (tmp_path / "x").exists()
