"""ONNX: a graph of few operators, for onnxruntime and others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.transforms import Hinge, Log
from dranking.errors import UsageError
from dranking.models.export.terms import Term, factors_of

OPSET = 13


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

    weights = np.array([term.weight for term in terms], dtype=np.float32)[:, None]
    products = [place for place, term in enumerate(terms) if term.times is not None]
    n_terms, terms = len(terms), factors_of(terms)
    constants = {
        "mean": np.array([term.mean for term in terms], dtype=np.float32),
        "scale": np.array([term.scale for term in terms], dtype=np.float32),
        "weights": weights,
        "columns": np.array([1], dtype=np.int64),
    }
    logged = np.array([isinstance(term.form, Log) for term in terms])
    nodes = []
    value = raw = source = "features"
    origins = np.array([term.origin for term in terms])
    if origins.any():
        constants["origins"] = origins
        source = value = raw = "shifted"
    told = np.array([term.is_indicator for term in terms])
    if told.any() or any(term.missing is not None for term in terms):
        gaps = [np.nan if term.missing is None else term.missing for term in terms]
        constants["for_missing"] = np.where(told, 1, gaps).astype(np.float32)
        constants |= {"told": told, "present": np.array(0, dtype=np.float32)}
        value = raw = "filled"
        nodes = [
            helper.make_node("IsNaN", [source], ["is_missing"]),
            helper.make_node("Where", ["told", "present", source], ["values"]),
            helper.make_node("Where", ["is_missing", "for_missing", "values"], [raw]),
        ]
    if origins.any():
        nodes = [
            helper.make_node("Sub", ["features", "origins"], ["exact"]),
            helper.make_node("Cast", ["exact"], [source], to=TensorProto.FLOAT),
            *nodes,
        ]
    if logged.any():
        one, zero = np.array(1, dtype=np.float32), np.array(0, dtype=np.float32)
        constants |= {"one": one, "zero": zero, "logged": logged}
        value = "forms"
        nodes += [
            helper.make_node("Abs", [raw], ["size"]),
            helper.make_node("Add", ["size", "one"], ["above_one"]),
            # ONNX has no log1p, and 1 + |x| rounds digits of a small x away. For the rounded sum u,
            # log(u) / (u - 1) is exact to rounding, and nearly equal to log1p(|x|) / |x|.
            helper.make_node("Log", ["above_one"], ["log"]),
            helper.make_node("Sub", ["above_one", "one"], ["rounded"]),
            helper.make_node("Div", ["log", "rounded"], ["slope"]),
            helper.make_node("Greater", ["rounded", "zero"], ["seen"]),
            helper.make_node("Where", ["seen", "slope", "one"], ["factor"]),
            helper.make_node("Mul", [raw, "factor"], ["signed_log"]),
            helper.make_node("Where", ["logged", "signed_log", raw], [value]),
        ]
    if any(isinstance(term.form, Hinge) for term in terms):
        constants |= _hinge_constants(terms)
        nodes += [
            helper.make_node("Sub", [raw, "knots"], ["above_knot"]),
            helper.make_node("Mul", ["above_knot", "sides"], ["beyond"]),
            helper.make_node("Relu", ["beyond"], ["hinge"]),
            helper.make_node("Where", ["hinged", "hinge", value], ["with_hinges"]),
        ]
        value = "with_hinges"
    nodes += [
        helper.make_node("Sub", [value, "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "scale"], ["scaled"]),
    ]
    value = "scaled"
    if products:
        value = "multiplied"
        nodes += _product_nodes(helper)
        constants |= _product_constants(n_terms, products)
    nodes += [
        helper.make_node("MatMul", [value, "weights"], ["column"]),
        helper.make_node("Squeeze", ["column", "columns"], ["scores"]),
    ]
    kind = TensorProto.DOUBLE if origins.any() else TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("features", kind, ["n", len(terms)])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n"])],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, producer_name="dranking", opset_imports=[opset])
    model.ir_version = 8  # runtimes of recent years read this version
    helper.set_model_props(model, {"features": json.dumps([term.name for term in terms])})
    checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def _product_nodes(helper: Any) -> list[Any]:
    """Nodes that multiply the scaled values of the terms by those of their second factors."""
    return [
        helper.make_node("Gather", ["scaled", "first_factors"], ["first"], axis=1),
        helper.make_node("Gather", ["scaled", "second_factors"], ["gathered"], axis=1),
        helper.make_node("Where", ["is_product", "gathered", "no_factor"], ["second"]),
        helper.make_node("Mul", ["first", "second"], ["multiplied"]),
    ]


def _product_constants(n_terms: int, products: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Columns of the factors of each term; a term that is no product has its own as the second."""
    second = np.arange(n_terms)
    second[products] = n_terms + np.arange(len(products))
    return {
        "first_factors": np.arange(n_terms),
        "second_factors": second,
        "is_product": second >= n_terms,
        "no_factor": np.array(1, dtype=np.float32),
    }


def _hinge_constants(terms: Sequence[Term]) -> dict[str, NDArray[Any]]:
    """Which terms are hinges, their knots, and 1 above them or -1 below."""
    hinges = [term.form if isinstance(term.form, Hinge) else None for term in terms]
    return {
        "hinged": np.array([hinge is not None for hinge in hinges]),
        "knots": np.array([hinge.knots[0] if hinge else 0 for hinge in hinges], dtype=np.float32),
        "sides": np.array(
            [-1 if hinge and not hinge.above[0] else 1 for hinge in hinges], dtype=np.float32
        ),
    }
