"""One allocation for all buffers of a request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from daemon import eventually
from runtime_memory import MIB, ledger, nothing_leased
from tenure import BufferPool, BufferUse, Client, LeaseLostError, PlanFamily, PlannedSlot, TenureError

# A and C are not in use at once.
A = BufferUse("A", 4 * MIB, 0, 3)
B = BufferUse("B", 6 * MIB, 1, 4)
C = BufferUse("C", 4 * MIB, 3, 5)
THREE = (A, B, C)


def refusal(error: pytest.ExceptionInfo[TenureError]) -> str:
    """Gives "PLAN_OVERLAP C A", with the values `buffer` and `other` as far as there are any."""
    values = error.value.values
    names = [values[name] for name in ("buffer", "other") if name in values]
    return " ".join([error.value.reason, *names])


def test_a_plan_takes_less_than_its_buffers_do(pool: BufferPool, pool_client: Client) -> None:
    unplanned = [pool.acquire(use.nbytes) for use in THREE]
    assert ledger(pool_client).leased == 14 * MIB
    for buffer in unplanned:
        buffer.release()
    plan = pool.plan(THREE)
    assert (plan.height, plan.lower_bound, plan.proven) == (10 * MIB, 10 * MIB, True)
    assert pool.plan(iter(THREE)) is plan
    with plan.open_slot(), plan.open_slot():
        assert ledger(pool_client).leased == 2 * plan.height
    assert nothing_leased(pool_client)


def test_buffers_that_are_not_in_use_at_once_lie_on_the_same_bytes(pool: BufferPool) -> None:
    plan = pool.plan(THREE)
    with plan.open_slot() as slot:
        with slot.acquire("A", (1024, 1024), "f4") as a:
            first = a.array
            first[:] = 3
            assert a.planned
            b = slot.acquire("B", 6 * MIB)
        with pytest.raises(LeaseLostError):
            a.array
        c = slot.acquire("C", 4 * MIB).array
        assert c.ctypes.data == first.ctypes.data
        assert b.array.ctypes.data - c.ctypes.data == plan.offsets["B"] - plan.offsets["C"]
        b.array[:] = 1
        assert np.all(c.view("f4") == 3)
    assert not b.valid


def test_an_old_plan_refuses_a_buffer_that_lives_longer(pool: BufferPool) -> None:
    plan = pool.plan(THREE)
    longer = [replace(A, end=5), B, C]
    plan.check(THREE)
    plan.check([])
    for uses, expected in (
        (longer, "PLAN_OVERLAP C A"),
        ([replace(A, end=None), C], "PLAN_OVERLAP C A"),
        ([replace(A, output=True), C], "PLAN_OVERLAP C A"),
        ([replace(B, nbytes=B.nbytes + 1)], "PLAN_TOO_SMALL B"),
        ([replace(B, alignment=512)], "PLAN_TOO_SMALL B"),
        ([replace(B, id="D")], "NOT_PLANNED D"),
        ([replace(A, alias_group=1), replace(B, alias_group=1)], "PLAN_OVERLAP B A"),
    ):
        with pytest.raises(TenureError) as refused:
            plan.check(uses)
        assert refusal(refused) == expected
    assert pool.plan(longer).height == 14 * MIB
    # Its memory is not needed in the gap.
    plan.check([replace(A, end=8, gaps=((2, 6),)), replace(C, end=6)])


def test_what_does_not_fit_is_refused_and_nothing_is_harmed(pool: BufferPool) -> None:
    def refuses(slot: PlannedSlot, name: str, nbytes: int, alignment: int = 1) -> str:
        with pytest.raises(TenureError) as refused:
            slot.acquire(name, nbytes, alignment=alignment)
        return refusal(refused)

    with pool.plan(THREE).open_slot() as slot:
        assert refuses(slot, "A", 4 * MIB + 1) == "PLAN_TOO_SMALL A"
        assert refuses(slot, "A", 1, 512) == "PLAN_TOO_SMALL A"
        assert refuses(slot, "D", 1) == "NOT_PLANNED D"
        with pytest.raises(ValueError):
            slot.acquire("A", 0)
        a = slot.acquire("A", 1)
        assert refuses(slot, "A", 1) == "ACQUIRED A"
        assert refuses(slot, "C", 1) == "PLAN_OVERLAP C A"
        slot.add_view("A")
        a.release()
        a.release()
        assert refuses(slot, "C", 1) == "PLAN_OVERLAP C A"
        slot.release("A")
        with pytest.raises(TenureError) as twice:
            slot.release("A")
        assert refusal(twice) == "NOT_ACQUIRED A"
        assert slot.acquire("C", 4 * MIB).valid
    slot.close()
    assert refuses(slot, "A", 1) == "SLOT_CLOSED"


def test_a_view_that_lives_longer_keeps_its_memory(pool: BufferPool) -> None:
    view = BufferUse("A'", MIB, 1, 3, alias_group=1)
    with pool.plan([replace(A, alias_group=1), B, C, view]).open_slot() as slot:
        a = slot.acquire("A", 4 * MIB)
        same = slot.acquire("A'", MIB)
        assert same.array.ctypes.data == a.array.ctypes.data
        a.release()
        with pytest.raises(TenureError) as refused:
            slot.acquire("C", 1)
        assert refusal(refused) == "PLAN_OVERLAP C A'"
        same.release()
        assert slot.acquire("C", 1).valid


def test_what_does_not_fit_falls_back_to_the_pool_if_asked(
    pool: BufferPool, pool_client: Client
) -> None:
    with pool.plan(THREE).open_slot(fall_back=True) as slot:
        slot.acquire("A", 1)
        c = slot.acquire("C", 4 * MIB)
        assert not c.planned
        assert ledger(pool_client).leased == 14 * MIB
        c.release()
        assert ledger(pool_client).leased == 10 * MIB
        assert slot.acquire("B", 7 * MIB).array.size == 7 * MIB
        assert ledger(pool_client).leased == 17 * MIB
    assert nothing_leased(pool_client)


def test_the_lowest_plan_that_is_large_enough_serves_a_shape(pool: BufferPool) -> None:
    family = PlanFamily()
    for shape, nbytes in (((8, 128), 3000), ((1, 128), 1000), ((1, 512), 2000)):
        family.add(shape, pool.plan([BufferUse("x", nbytes, 0, 1)]))
    assert family.smallest((1, 1)).height == 1000
    assert family.smallest((1, 129)).height == 2000
    assert family.smallest((2, 128)).height == 3000
    with pytest.raises(TenureError) as none:
        family.smallest((2, 129))
    assert none.value.reason == "PLAN_TOO_SMALL"
    with pytest.raises(ValueError):
        family.smallest((1,))


def test_what_makes_no_sense_is_refused(pool: BufferPool) -> None:
    for bad in (
        {"id": ""},
        {"nbytes": 0},
        {"alignment": 3},
        {"end": 0},
        {"first_use": -1},
        {"gaps": ((0, 1),)},
        {"gaps": ((2, 3),)},
    ):
        with pytest.raises(ValueError):
            replace(A, **bad)
    with pytest.raises(TenureError) as twice:
        pool.plan([A, A])
    assert twice.value.reason == "INVALID_PLAN_INPUT"
    assert twice.value.values["fault"] == "duplicate_id"


def test_a_dropped_slot_is_released_once_its_last_array_is_gone(
    pool: BufferPool, pool_client: Client
) -> None:
    array = pool.plan(THREE).open_slot().acquire("A", 8).array
    array[:] = 1
    assert ledger(pool_client).leased == 10 * MIB
    del array
    eventually(lambda: nothing_leased(pool_client))


# A graph as ONNX has it: operator, inputs, output, and the output's shape.
NODES = (
    ("MatMul", ("x", "w0"), "a", (8, 64)),
    ("Relu", ("a",), "b", (8, 64)),
    ("MatMul", ("b", "w1"), "c", (8, 64)),
    ("Relu", ("c",), "d", (8, 64)),
    ("Reshape", ("d",), "e", (4, 128)),
    ("MatMul", ("e", "w2"), "f", (4, 32)),
    ("Relu", ("f",), "y", (4, 32)),
)
RNG = np.random.default_rng(1)
WEIGHTS = {
    name: RNG.standard_normal(shape, "f4")
    for name, shape in (("w0", (96, 64)), ("w1", (64, 64)), ("w2", (128, 32)))
}


def graph_uses() -> list[BufferUse]:
    """Says how the graph uses its intermediate results; a Reshape gives a view of its input."""
    steps = {name: (step, step + 1) for step, (_, _, name, _) in enumerate(NODES)}
    groups = {"d": 0, "e": 0}
    for step, (_, inputs, _, _) in enumerate(NODES):
        for name in inputs:
            if name in steps:
                steps[name] = (steps[name][0], step + 1)
    return [
        BufferUse(
            name,
            int(np.prod(shape)) * 4,
            *steps[name],
            output=name == "y",
            alias_group=groups.get(name),
        )
        for _, _, name, shape in NODES
    ]


def onnx_uses() -> list[BufferUse]:
    """Says the same of the graph as an ONNX model, by way of its trace."""
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper
    from tenure.onnx_trace import Sizes, trace_lines

    weights = [numpy_helper.from_array(value, name) for name, value in WEIGHTS.items()]
    weights.append(helper.make_tensor("shape", TensorProto.INT64, [2], (4, 128)))
    nodes = [
        helper.make_node(operator, [*inputs, "shape"] if operator == "Reshape" else inputs, [name])
        for operator, inputs, name, _ in NODES
    ]
    ends = [("x", (8, 96)), ("y", (4, 32))]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends)
    graph = helper.make_graph(nodes, "graph", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    uses: dict[str, BufferUse] = {}
    for line in trace_lines(model, Sizes()):
        if "op" not in line:
            continue
        for name in line["inputs"]:
            if name in uses:
                uses[name] = replace(uses[name], end=line["step"] + 1)
        for tensor in line["outputs"]:
            name, viewed = tensor["name"], tensor.get("alias_of")
            group = None if viewed is None else 0
            uses[name] = BufferUse(
                name,
                tensor["size"],
                line["step"],
                line["step"] + 1,
                output=name == "y",
                alias_group=group,
            )
            if viewed is not None:
                uses[viewed] = replace(uses[viewed], alias_group=group)
    return list(uses.values())


def run_unplanned(x: np.ndarray) -> np.ndarray:
    values = {"x": x, **WEIGHTS}
    for operator, inputs, output, shape in NODES:
        arguments = [values[name] for name in inputs]
        if operator == "MatMul":
            values[output] = np.matmul(*arguments)
        elif operator == "Relu":
            values[output] = np.maximum(arguments[0], 0)
        else:
            values[output] = arguments[0].reshape(shape)
    return values["y"]


def run_planned(slot: PlannedSlot, x: np.ndarray) -> np.ndarray:
    values = {"x": x, **WEIGHTS}
    ends = {use.id: use.end for use in slot.plan.uses}
    for step, (operator, inputs, output, shape) in enumerate(NODES):
        arguments = [values[name] for name in inputs]
        values[output] = slot.acquire(output, shape, "f4").array
        if operator == "MatMul":
            np.matmul(*arguments, out=values[output])
        elif operator == "Relu":
            np.maximum(arguments[0], 0, out=values[output])
        for name in inputs:
            if ends.get(name) == step + 1:
                slot.release(name)
    result = values["y"].copy()
    slot.release("y")
    return result


@pytest.mark.parametrize("uses_of", [graph_uses, onnx_uses])
def test_four_requests_at_once_compute_in_their_slots_what_they_do_without_a_plan(
    pool: BufferPool, pool_client: Client, uses_of: Callable[[], list[BufferUse]]
) -> None:
    plan = pool.plan(uses_of())
    # a and b, or b and c: two of the large ones at a time, where there are six buffers.
    assert plan.height == 2 * 8 * 64 * 4
    all_open = threading.Barrier(5)
    measured = threading.Barrier(5)
    requests = [RNG.standard_normal((8, 96), "f4") for _ in range(4)]

    def serve(x: np.ndarray) -> list[np.ndarray]:
        with plan.open_slot() as slot:
            all_open.wait()
            measured.wait()
            return [run_planned(slot, x) for _ in range(50)]

    with ThreadPoolExecutor(4) as threads:
        results = [threads.submit(serve, x) for x in requests]
        all_open.wait()
        leased = ledger(pool_client).leased
        measured.wait()
        assert leased == 4 * plan.height
        for x, result in zip(requests, results):
            expected = run_unplanned(x)
            assert all(np.array_equal(each, expected) for each in result.result())
    assert nothing_leased(pool_client)
