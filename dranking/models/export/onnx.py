"""ONNX: a graph of few operators, for onnxruntime and others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.transforms import Hinge, Log
from dranking.errors import UsageError
from dranking.models.export.terms import Term, factors_of

OPSET = 13


@dataclass(eq=False)
class _Graph:
    """Nodes (operator, inputs, output, attributes) and constants; `value` is the last output."""

    nodes: list[tuple[str, tuple[str, ...], str, dict[str, int]]] = field(default_factory=list)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    value: str = "features"

    def add(self, operator: str, *inputs: str, output: str, **attributes: int) -> None:
        """Append a node with this output."""
        self.nodes.append((operator, inputs, output, attributes))
        self.value = output


def onnx(terms: Sequence[Term], name: str) -> bytes:
    """Serialise a graph from ``features`` (n, n_columns) float32 to ``scores`` (n,) float32.

    A missing value is NaN. Where the training subtracted origins, the features are float64.
    The metadata entry ``features`` has the names of the features in the order of the columns: one
    for each term, and then one for the second factor of each product.

    Raises
    ------
    UsageError
        If the onnx package is not installed.
    """
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError as error:
        raise UsageError("ONNX needs the onnx package: pip install 'dranking[onnx]'.") from error

    factors = factors_of(terms)
    found = _Graph()
    if any(term.origin for term in factors):
        _subtract_origins(found, factors, TensorProto.FLOAT)
    if any(term.is_indicator or term.missing is not None for term in factors):
        _fill(found, factors)
    _transform(found, factors)
    _scale_and_multiply(found, terms, factors)
    found.constants["weights"] = _float32([term.weight for term in terms])[:, None]
    found.constants["columns"] = np.array([1], dtype=np.int64)
    found.add("MatMul", found.value, "weights", output="column")
    found.add("Squeeze", "column", "columns", output="scores")
    kind = TensorProto.DOUBLE if "origins" in found.constants else TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(op, given, [output], **more) for op, given, output, more in found.nodes],
        name,
        [helper.make_tensor_value_info("features", kind, ["n", len(factors)])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n"])],
        [numpy_helper.from_array(value, key) for key, value in found.constants.items()],
    )
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, producer_name="dranking", opset_imports=[opset])
    model.ir_version = 8  # runtimes of recent years read this version
    helper.set_model_props(model, {"features": json.dumps([term.name for term in factors])})
    checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def _float32(values: Any) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def _subtract_origins(graph: _Graph, factors: Sequence[Term], float32: int) -> None:
    """Subtract the origins in float64, and go on in float32."""
    graph.constants["origins"] = np.array([term.origin for term in factors])
    graph.add("Sub", graph.value, "origins", output="exact")
    graph.add("Cast", "exact", output="shifted", to=float32)


def _fill(graph: _Graph, factors: Sequence[Term]) -> None:
    """Put the values of training in the place of NaN, and 1 or 0 in that of indicators."""
    told = np.array([term.is_indicator for term in factors])
    gaps = [np.nan if term.missing is None else term.missing for term in factors]
    graph.constants |= {
        "for_missing": np.where(told, 1, gaps).astype(np.float32),
        "told": told,
        "present": _float32(0),
    }
    source = graph.value
    graph.add("IsNaN", source, output="is_missing")
    graph.add("Where", "told", "present", source, output="values")
    graph.add("Where", "is_missing", "for_missing", "values", output="filled")


def _transform(graph: _Graph, factors: Sequence[Term]) -> None:
    """Take logarithms and hinges of the columns that need them."""
    raw = graph.value
    logged = np.array([isinstance(term.form, Log) for term in factors])
    if logged.any():
        graph.constants |= {"one": _float32(1), "zero": _float32(0), "logged": logged}
        graph.add("Abs", raw, output="size")
        graph.add("Add", "size", "one", output="above_one")
        # ONNX has no log1p, and 1 + |x| rounds digits of a small x away. For the rounded sum u,
        # log(u) / (u - 1) is exact to rounding, and nearly equal to log1p(|x|) / |x|.
        graph.add("Log", "above_one", output="log")
        graph.add("Sub", "above_one", "one", output="rounded")
        graph.add("Div", "log", "rounded", output="slope")
        graph.add("Greater", "rounded", "zero", output="seen")
        graph.add("Where", "seen", "slope", "one", output="factor")
        graph.add("Mul", raw, "factor", output="signed_log")
        graph.add("Where", "logged", "signed_log", raw, output="forms")
    hinges = [term.form if isinstance(term.form, Hinge) else None for term in factors]
    if any(hinges):
        plain = graph.value
        graph.constants |= {
            "hinged": np.array([hinge is not None for hinge in hinges]),
            "knots": _float32([hinge.knots[0] if hinge else 0 for hinge in hinges]),
            "sides": _float32([-1 if hinge and not hinge.above[0] else 1 for hinge in hinges]),
        }
        graph.add("Sub", raw, "knots", output="above_knot")
        graph.add("Mul", "above_knot", "sides", output="beyond")
        graph.add("Relu", "beyond", output="hinge")
        graph.add("Where", "hinged", "hinge", plain, output="with_hinges")


def _scale_and_multiply(graph: _Graph, terms: Sequence[Term], factors: Sequence[Term]) -> None:
    """Scale the factors, and multiply those of products.

    The second factors stand behind the terms; a term that is no product has itself there.
    """
    graph.constants["mean"] = _float32([term.mean for term in factors])
    graph.constants["scale"] = _float32([term.scale for term in factors])
    graph.add("Sub", graph.value, "mean", output="centred")
    graph.add("Div", "centred", "scale", output="scaled")
    products = [place for place, term in enumerate(terms) if term.times is not None]
    if not products:
        return
    n_terms = len(terms)
    second = np.arange(n_terms)
    second[products] = n_terms + np.arange(len(products))
    graph.constants |= {
        "first_factors": np.arange(n_terms),
        "second_factors": second,
        "is_product": second >= n_terms,
        "no_factor": _float32(1),
    }
    graph.add("Gather", "scaled", "first_factors", output="first", axis=1)
    graph.add("Gather", "scaled", "second_factors", output="gathered", axis=1)
    graph.add("Where", "is_product", "gathered", "no_factor", output="second")
    graph.add("Mul", "first", "second", output="multiplied")
