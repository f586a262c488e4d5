"""Distributed learning to rank with sparse models on Dask.

The public names are imported here on first use. The layers, of which every layer imports only the
layers below it:

| layer | contents |
|---|---|
| `cli` | the command line |
| `retrain`, `report`, `export` | nightly runs, registry, gate; HTML reports; export formats |
| `rankers`, `bounds`, `tuning` | estimators and models; risk bounds; choice of hyperparameters |
| `clicks` | counts of clicks, propensities, labels, values of rankers, interleaving |
| `engine` | threads or Dask: tiles, passes, reductions |
| `metrics`, `losses`, `sampling` | measures of queries; losses over pairs; draws of pairs |
| `data` | data sets on disk, blocks in memory, readers, writers, scaling |
| `files` | paths and URLs, commit protocol, checksums, JSON, redaction |
| `kernels` | numpy, scipy, numba: arrays in, arrays out |

The unit of all work is a block of whole queries. Sums over blocks are combined in one fixed
tree, so results do not depend on workers, placement or order, in any bit.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

TYPE_CHECKING = False  # as in typing, whose import would take most of the time of this one

if TYPE_CHECKING:
    from dranking.bounds.caps import Caps as Caps
    from dranking.bounds.report import risk_bounds as risk_bounds
    from dranking.clicks.build.build import build_clicks as build_clicks
    from dranking.clicks.build.click_log import ClickLog as ClickLog
    from dranking.clicks.labels.label_dataset import label_dataset as label_dataset
    from dranking.clicks.labels.labels import LabelRules as LabelRules
    from dranking.clicks.labels.labels import labels_of as labels_of
    from dranking.clicks.labels.prior import fit_prior as fit_prior
    from dranking.clicks.logs.columns import LogColumns as LogColumns
    from dranking.clicks.propensities.harvest import HarvestRules as HarvestRules
    from dranking.clicks.propensities.harvest import harvest_propensities as harvest_propensities
    from dranking.clicks.propensities.propensities import given_propensities as given_propensities
    from dranking.clicks.propensities.propensities import load_propensities as load_propensities
    from dranking.clicks.propensities.propensities import power_propensities as power_propensities
    from dranking.clicks.store.click_store import open_click_store as open_click_store
    from dranking.clicks.store.write_store import write_click_store as write_click_store
    from dranking.data.forms_dataset import with_forms as with_forms
    from dranking.data.ingest.row_rules import RowRules as RowRules
    from dranking.data.open import open_dataset as open_dataset
    from dranking.data.parquet.dataset import write_parquet as write_parquet
    from dranking.data.roles import Columns as Columns
    from dranking.data.scaling import scaled as scaled
    from dranking.data.scores.read_scores import read_scores as read_scores
    from dranking.data.statistics.write_append_expire import expire_statistics as expire_statistics
    from dranking.data.store.write_dataset import write_dataset as write_dataset
    from dranking.data.tables.in_memory import from_arrays as from_arrays
    from dranking.data.tables.in_memory import from_table as from_table
    from dranking.data.texts.collection import load_collection as load_collection
    from dranking.data.texts.make_collection import collection as collection
    from dranking.data.texts.make_collection import text_collection as text_collection
    from dranking.data.texts.open_collection import open_collection as open_collection
    from dranking.data.texts.preferences import (
        preferences_from_judgments as preferences_from_judgments,
    )
    from dranking.data.texts.preferences import preferences_from_table as preferences_from_table
    from dranking.data.texts.preferences import same_class as same_class
    from dranking.engine.dask_collections import to_dask_array as to_dask_array
    from dranking.engine.dask_collections import to_dask_dataframe as to_dask_dataframe
    from dranking.engine.ingest.ingest import ingest as ingest
    from dranking.errors import DataError as DataError
    from dranking.errors import DrankingError as DrankingError
    from dranking.errors import TryAgainError as TryAgainError
    from dranking.errors import UsageError as UsageError
    from dranking.export.formats import export_model as export_model
    from dranking.export.formats import import_model as import_model
    from dranking.files.places import as_place as as_place
    from dranking.metrics.comparison.compare import Comparison as Comparison
    from dranking.metrics.scorers import ndcg_scorer as ndcg_scorer
    from dranking.metrics.scorers import ranking_scorer as ranking_scorer
    from dranking.rankers.bilinear.estimator import BilinearRanker as BilinearRanker
    from dranking.rankers.bilinear.evaluation import evaluate_bilinear as evaluate_bilinear
    from dranking.rankers.bilinear.model import BilinearModel as BilinearModel
    from dranking.rankers.gram.relabel_statistics import relabel_statistics as relabel_statistics
    from dranking.rankers.gram.statistics_store import append_queries as append_queries
    from dranking.rankers.gram.statistics_store import build_statistics as build_statistics
    from dranking.rankers.greedy.cross_validation import GreedyRankRLSCV as GreedyRankRLSCV
    from dranking.rankers.greedy.estimator import GreedyRankRLS as GreedyRankRLS
    from dranking.rankers.greedy.options import Costs as Costs
    from dranking.rankers.greedy.options import Forms as Forms
    from dranking.rankers.greedy.options import Passes as Passes
    from dranking.rankers.greedy.options import Rescore as Rescore
    from dranking.rankers.greedy.options import Search as Search
    from dranking.rankers.leave_query_out.scores import (
        leave_query_out_scores as leave_query_out_scores,
    )
    from dranking.rankers.linear.model import LinearModel as LinearModel
    from dranking.rankers.linear.pipeline import to_model as to_model
    from dranking.rankers.max_margin.estimator import MaxMarginRanker as MaxMarginRanker
    from dranking.rankers.models import load_model as load_model
    from dranking.rankers.pairwise.lcra import LCRA as LCRA
    from dranking.rankers.pairwise.options import SGD as SGD
    from dranking.rankers.pairwise.options import Pairs as Pairs
    from dranking.rankers.pairwise.options import Validation as Validation
    from dranking.rankers.pairwise.ranksvm import RankLogistic as RankLogistic
    from dranking.rankers.pairwise.ranksvm import RankSVM as RankSVM
    from dranking.rankers.pairwise.spd import SPD as SPD
    from dranking.rankers.rankrls.cross_validation import RankRLSCV as RankRLSCV
    from dranking.rankers.rankrls.estimator import RankRLS as RankRLS
    from dranking.rankers.training.learning_curve import plot_learning_curve as plot_learning_curve
    from dranking.rankers.write_scores import write_scores as write_scores
    from dranking.report.write_report import write_report as write_report
    from dranking.tuning.comparison import compare as compare
    from dranking.tuning.evaluation import Evaluation as Evaluation
    from dranking.tuning.evaluation import evaluate as evaluate
    from dranking.tuning.folds import QueryKFold as QueryKFold
    from dranking.tuning.result import TuningResult as TuningResult
    from dranking.tuning.search import tune as tune

# Public name -> module that defines it, imported on first use so that `import dranking` is fast.
_HOME = {
    "BilinearModel": "dranking.rankers.bilinear.model",
    "BilinearRanker": "dranking.rankers.bilinear.estimator",
    "Caps": "dranking.bounds.caps",
    "ClickLog": "dranking.clicks.build.click_log",
    "Columns": "dranking.data.roles",
    "Comparison": "dranking.metrics.comparison.compare",
    "Costs": "dranking.rankers.greedy.options",
    "DataError": "dranking.errors",
    "DrankingError": "dranking.errors",
    "Evaluation": "dranking.tuning.evaluation",
    "Forms": "dranking.rankers.greedy.options",
    "GreedyRankRLS": "dranking.rankers.greedy.estimator",
    "GreedyRankRLSCV": "dranking.rankers.greedy.cross_validation",
    "HarvestRules": "dranking.clicks.propensities.harvest",
    "LCRA": "dranking.rankers.pairwise.lcra",
    "LabelRules": "dranking.clicks.labels.labels",
    "LinearModel": "dranking.rankers.linear.model",
    "LogColumns": "dranking.clicks.logs.columns",
    "MaxMarginRanker": "dranking.rankers.max_margin.estimator",
    "Pairs": "dranking.rankers.pairwise.options",
    "Passes": "dranking.rankers.greedy.options",
    "QueryKFold": "dranking.tuning.folds",
    "RankLogistic": "dranking.rankers.pairwise.ranksvm",
    "RankRLS": "dranking.rankers.rankrls.estimator",
    "RankRLSCV": "dranking.rankers.rankrls.cross_validation",
    "RankSVM": "dranking.rankers.pairwise.ranksvm",
    "Rescore": "dranking.rankers.greedy.options",
    "RowRules": "dranking.data.ingest.row_rules",
    "SGD": "dranking.rankers.pairwise.options",
    "SPD": "dranking.rankers.pairwise.spd",
    "Search": "dranking.rankers.greedy.options",
    "TryAgainError": "dranking.errors",
    "TuningResult": "dranking.tuning.result",
    "UsageError": "dranking.errors",
    "Validation": "dranking.rankers.pairwise.options",
    "append_queries": "dranking.rankers.gram.statistics_store",
    "as_place": "dranking.files.places",
    "build_clicks": "dranking.clicks.build.build",
    "build_statistics": "dranking.rankers.gram.statistics_store",
    "collection": "dranking.data.texts.make_collection",
    "compare": "dranking.tuning.comparison",
    "evaluate": "dranking.tuning.evaluation",
    "evaluate_bilinear": "dranking.rankers.bilinear.evaluation",
    "expire_statistics": "dranking.data.statistics.write_append_expire",
    "export_model": "dranking.export.formats",
    "fit_prior": "dranking.clicks.labels.prior",
    "from_arrays": "dranking.data.tables.in_memory",
    "from_table": "dranking.data.tables.in_memory",
    "given_propensities": "dranking.clicks.propensities.propensities",
    "harvest_propensities": "dranking.clicks.propensities.harvest",
    "import_model": "dranking.export.formats",
    "ingest": "dranking.engine.ingest.ingest",
    "label_dataset": "dranking.clicks.labels.label_dataset",
    "labels_of": "dranking.clicks.labels.labels",
    "leave_query_out_scores": "dranking.rankers.leave_query_out.scores",
    "load_collection": "dranking.data.texts.collection",
    "load_model": "dranking.rankers.models",
    "load_propensities": "dranking.clicks.propensities.propensities",
    "ndcg_scorer": "dranking.metrics.scorers",
    "open_click_store": "dranking.clicks.store.click_store",
    "open_collection": "dranking.data.texts.open_collection",
    "open_dataset": "dranking.data.open",
    "plot_learning_curve": "dranking.rankers.training.learning_curve",
    "power_propensities": "dranking.clicks.propensities.propensities",
    "preferences_from_judgments": "dranking.data.texts.preferences",
    "preferences_from_table": "dranking.data.texts.preferences",
    "ranking_scorer": "dranking.metrics.scorers",
    "read_scores": "dranking.data.scores.read_scores",
    "relabel_statistics": "dranking.rankers.gram.relabel_statistics",
    "risk_bounds": "dranking.bounds.report",
    "same_class": "dranking.data.texts.preferences",
    "scaled": "dranking.data.scaling",
    "text_collection": "dranking.data.texts.make_collection",
    "to_dask_array": "dranking.engine.dask_collections",
    "to_dask_dataframe": "dranking.engine.dask_collections",
    "to_model": "dranking.rankers.linear.pipeline",
    "tune": "dranking.tuning.search",
    "with_forms": "dranking.data.forms_dataset",
    "write_click_store": "dranking.clicks.store.write_store",
    "write_dataset": "dranking.data.store.write_dataset",
    "write_parquet": "dranking.data.parquet.dataset",
    "write_report": "dranking.report.write_report",
    "write_scores": "dranking.rankers.write_scores",
}

__all__ = [*sorted(_HOME), "__version__"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dranking' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
