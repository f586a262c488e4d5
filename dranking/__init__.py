"""Distributed learning to rank with sparse models on Dask.

The public names are imported here on first use. A package imports from the packages below it only,
but for three imports that ``tests/test_layers.py`` names:

| package | contents |
|---|---|
| `cli` | the command line |
| `retrain` | scheduled runs, registry, gate |
| `report` | HTML reports and model cards |
| `clicks` | counts of clicks, propensities, labels, values of rankers, interleaving |
| `fusion` | one ranking out of several runs |
| `tuning` | choice of hyperparameters |
| `bilinear` | the sparse bilinear ranker and its texts (Chen et al. 2010) |
| `max_margin` | max-margin rankers and their risk bounds (Riezler and De Bona 2009) |
| `pairwise` | SPD, LCRA (Tsivtsivadze et al. 2012), RankSVM, RankLogistic |
| `rankrls` | RankRLS and greedy RankRLS (Pahikkala et al. 2010), statistics stores |
| `models` | linear models, scorers, evaluation, exports; what trainings share |
| `metrics` | measures of queries, comparisons, files of scores |
| `ingestion` | from tables, text or Dask collections to data sets; `open_dataset` |
| `engine` | threads or Dask: tiles, passes, reductions |
| `data` | blocks in memory, data sets on disk, tables, parquet, scaling |
| `files` | paths and URLs, commit protocol, checksums, JSON |
| `kernels` | loops that several packages share: NumPy, SciPy, Numba |

The unit of all work is a block of whole queries. Sums over blocks are combined in one fixed
tree, so results do not depend on workers, placement or order, in any bit.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

TYPE_CHECKING = False  # as in typing, whose import would take most of the time of this one

if TYPE_CHECKING:
    from dranking.bilinear.estimator import BilinearRanker as BilinearRanker
    from dranking.bilinear.evaluation import evaluate_bilinear as evaluate_bilinear
    from dranking.bilinear.model import BilinearModel as BilinearModel
    from dranking.bilinear.texts.collection import load_collection as load_collection
    from dranking.bilinear.texts.make_collection import collection as collection
    from dranking.bilinear.texts.make_collection import text_collection as text_collection
    from dranking.bilinear.texts.open_collection import open_collection as open_collection
    from dranking.bilinear.texts.preferences import (
        preferences_from_judgments as preferences_from_judgments,
    )
    from dranking.bilinear.texts.preferences import preferences_from_table as preferences_from_table
    from dranking.bilinear.texts.preferences import same_class as same_class
    from dranking.clicks.counting.build import build_clicks as build_clicks
    from dranking.clicks.counting.click_log import ClickLog as ClickLog
    from dranking.clicks.labels.label_dataset import label_dataset as label_dataset
    from dranking.clicks.labels.labels import LabelRules as LabelRules
    from dranking.clicks.labels.labels import labels_of as labels_of
    from dranking.clicks.labels.prior import fit_prior as fit_prior
    from dranking.clicks.logs.columns import LogColumns as LogColumns
    from dranking.clicks.logs.columns import UbiRules as UbiRules
    from dranking.clicks.propensities.harvest import HarvestRules as HarvestRules
    from dranking.clicks.propensities.harvest import harvest_propensities as harvest_propensities
    from dranking.clicks.propensities.propensities import given_propensities as given_propensities
    from dranking.clicks.propensities.propensities import load_propensities as load_propensities
    from dranking.clicks.propensities.propensities import power_propensities as power_propensities
    from dranking.clicks.store.click_store import open_click_store as open_click_store
    from dranking.clicks.store.write_store import write_click_store as write_click_store
    from dranking.data.forms_dataset import with_forms as with_forms
    from dranking.data.parquet.dataset import write_parquet as write_parquet
    from dranking.data.roles import Columns as Columns
    from dranking.data.scaling import scaled as scaled
    from dranking.data.store.write_dataset import write_dataset as write_dataset
    from dranking.data.tables.in_memory import from_arrays as from_arrays
    from dranking.data.tables.in_memory import from_table as from_table
    from dranking.errors import DataError as DataError
    from dranking.errors import DrankingError as DrankingError
    from dranking.errors import TryAgainError as TryAgainError
    from dranking.errors import UsageError as UsageError
    from dranking.files.places import as_place as as_place
    from dranking.fusion.fuse import FusedRun as FusedRun
    from dranking.fusion.fuse import fuse as fuse
    from dranking.ingestion.ingest import ingest as ingest
    from dranking.ingestion.open import open_dataset as open_dataset
    from dranking.ingestion.rows.row_rules import RowRules as RowRules
    from dranking.ingestion.to_dask import to_dask_array as to_dask_array
    from dranking.ingestion.to_dask import to_dask_dataframe as to_dask_dataframe
    from dranking.max_margin.bounds.caps import Caps as Caps
    from dranking.max_margin.bounds.report import risk_bounds as risk_bounds
    from dranking.max_margin.estimator import MaxMarginRanker as MaxMarginRanker
    from dranking.metrics.comparison.compare import Comparison as Comparison
    from dranking.metrics.judged_runs import RunRules as RunRules
    from dranking.metrics.scorers import ndcg_scorer as ndcg_scorer
    from dranking.metrics.scorers import ranking_scorer as ranking_scorer
    from dranking.metrics.scores.read_scores import read_judgements as read_judgements
    from dranking.metrics.scores.read_scores import read_scores as read_scores
    from dranking.models.comparison import compare as compare
    from dranking.models.comparison import compare_rankers as compare_rankers
    from dranking.models.evaluation import Evaluation as Evaluation
    from dranking.models.evaluation import evaluate as evaluate
    from dranking.models.export.formats import export_model as export_model
    from dranking.models.export.formats import import_model as import_model
    from dranking.models.linear.model import LinearModel as LinearModel
    from dranking.models.linear.pipeline import to_model as to_model
    from dranking.models.load import load_model as load_model
    from dranking.models.training.learning_curve import plot_learning_curve as plot_learning_curve
    from dranking.models.write_scores import write_scores as write_scores
    from dranking.pairwise.lcra import LCRA as LCRA
    from dranking.pairwise.options import SGD as SGD
    from dranking.pairwise.options import Pairs as Pairs
    from dranking.pairwise.options import Validation as Validation
    from dranking.pairwise.ranksvm import RankLogistic as RankLogistic
    from dranking.pairwise.ranksvm import RankSVM as RankSVM
    from dranking.pairwise.spd import SPD as SPD
    from dranking.rankrls.cross_validation import RankRLSCV as RankRLSCV
    from dranking.rankrls.estimator import RankRLS as RankRLS
    from dranking.rankrls.gram.relabel_statistics import relabel_statistics as relabel_statistics
    from dranking.rankrls.gram.statistics_store import append_queries as append_queries
    from dranking.rankrls.gram.statistics_store import build_statistics as build_statistics
    from dranking.rankrls.greedy.cross_validation import GreedyRankRLSCV as GreedyRankRLSCV
    from dranking.rankrls.greedy.estimator import GreedyRankRLS as GreedyRankRLS
    from dranking.rankrls.greedy.options import Costs as Costs
    from dranking.rankrls.greedy.options import Forms as Forms
    from dranking.rankrls.greedy.options import Passes as Passes
    from dranking.rankrls.greedy.options import Rescore as Rescore
    from dranking.rankrls.greedy.options import Search as Search
    from dranking.rankrls.leave_query_out.scores import (
        leave_query_out_scores as leave_query_out_scores,
    )
    from dranking.rankrls.statistics.write_append_expire import (
        expire_statistics as expire_statistics,
    )
    from dranking.report.write_rankers_report import (
        write_rankers_report as write_rankers_report,
    )
    from dranking.report.write_report import write_report as write_report
    from dranking.tuning.folds import QueryKFold as QueryKFold
    from dranking.tuning.result import TuningResult as TuningResult
    from dranking.tuning.search import tune as tune

# Public name -> module that defines it, imported on first use so that `import dranking` is fast.
_HOME = {
    "BilinearModel": "dranking.bilinear.model",
    "BilinearRanker": "dranking.bilinear.estimator",
    "Caps": "dranking.max_margin.bounds.caps",
    "ClickLog": "dranking.clicks.counting.click_log",
    "Columns": "dranking.data.roles",
    "Comparison": "dranking.metrics.comparison.compare",
    "Costs": "dranking.rankrls.greedy.options",
    "DataError": "dranking.errors",
    "DrankingError": "dranking.errors",
    "Evaluation": "dranking.models.evaluation",
    "Forms": "dranking.rankrls.greedy.options",
    "FusedRun": "dranking.fusion.fuse",
    "GreedyRankRLS": "dranking.rankrls.greedy.estimator",
    "GreedyRankRLSCV": "dranking.rankrls.greedy.cross_validation",
    "HarvestRules": "dranking.clicks.propensities.harvest",
    "LCRA": "dranking.pairwise.lcra",
    "LabelRules": "dranking.clicks.labels.labels",
    "LinearModel": "dranking.models.linear.model",
    "LogColumns": "dranking.clicks.logs.columns",
    "MaxMarginRanker": "dranking.max_margin.estimator",
    "Pairs": "dranking.pairwise.options",
    "Passes": "dranking.rankrls.greedy.options",
    "QueryKFold": "dranking.tuning.folds",
    "RankLogistic": "dranking.pairwise.ranksvm",
    "RankRLS": "dranking.rankrls.estimator",
    "RankRLSCV": "dranking.rankrls.cross_validation",
    "RankSVM": "dranking.pairwise.ranksvm",
    "Rescore": "dranking.rankrls.greedy.options",
    "RowRules": "dranking.ingestion.rows.row_rules",
    "RunRules": "dranking.metrics.judged_runs",
    "SGD": "dranking.pairwise.options",
    "SPD": "dranking.pairwise.spd",
    "Search": "dranking.rankrls.greedy.options",
    "TryAgainError": "dranking.errors",
    "TuningResult": "dranking.tuning.result",
    "UbiRules": "dranking.clicks.logs.columns",
    "UsageError": "dranking.errors",
    "Validation": "dranking.pairwise.options",
    "append_queries": "dranking.rankrls.gram.statistics_store",
    "as_place": "dranking.files.places",
    "build_clicks": "dranking.clicks.counting.build",
    "build_statistics": "dranking.rankrls.gram.statistics_store",
    "collection": "dranking.bilinear.texts.make_collection",
    "compare": "dranking.models.comparison",
    "compare_rankers": "dranking.models.comparison",
    "evaluate": "dranking.models.evaluation",
    "evaluate_bilinear": "dranking.bilinear.evaluation",
    "expire_statistics": "dranking.rankrls.statistics.write_append_expire",
    "export_model": "dranking.models.export.formats",
    "fit_prior": "dranking.clicks.labels.prior",
    "from_arrays": "dranking.data.tables.in_memory",
    "from_table": "dranking.data.tables.in_memory",
    "fuse": "dranking.fusion.fuse",
    "given_propensities": "dranking.clicks.propensities.propensities",
    "harvest_propensities": "dranking.clicks.propensities.harvest",
    "import_model": "dranking.models.export.formats",
    "ingest": "dranking.ingestion.ingest",
    "label_dataset": "dranking.clicks.labels.label_dataset",
    "labels_of": "dranking.clicks.labels.labels",
    "leave_query_out_scores": "dranking.rankrls.leave_query_out.scores",
    "load_collection": "dranking.bilinear.texts.collection",
    "load_model": "dranking.models.load",
    "load_propensities": "dranking.clicks.propensities.propensities",
    "ndcg_scorer": "dranking.metrics.scorers",
    "open_click_store": "dranking.clicks.store.click_store",
    "open_collection": "dranking.bilinear.texts.open_collection",
    "open_dataset": "dranking.ingestion.open",
    "plot_learning_curve": "dranking.models.training.learning_curve",
    "power_propensities": "dranking.clicks.propensities.propensities",
    "preferences_from_judgments": "dranking.bilinear.texts.preferences",
    "preferences_from_table": "dranking.bilinear.texts.preferences",
    "ranking_scorer": "dranking.metrics.scorers",
    "read_judgements": "dranking.metrics.scores.read_scores",
    "read_scores": "dranking.metrics.scores.read_scores",
    "relabel_statistics": "dranking.rankrls.gram.relabel_statistics",
    "risk_bounds": "dranking.max_margin.bounds.report",
    "same_class": "dranking.bilinear.texts.preferences",
    "scaled": "dranking.data.scaling",
    "text_collection": "dranking.bilinear.texts.make_collection",
    "to_dask_array": "dranking.ingestion.to_dask",
    "to_dask_dataframe": "dranking.ingestion.to_dask",
    "to_model": "dranking.models.linear.pipeline",
    "tune": "dranking.tuning.search",
    "with_forms": "dranking.data.forms_dataset",
    "write_click_store": "dranking.clicks.store.write_store",
    "write_dataset": "dranking.data.store.write_dataset",
    "write_parquet": "dranking.data.parquet.dataset",
    "write_rankers_report": "dranking.report.write_rankers_report",
    "write_report": "dranking.report.write_report",
    "write_scores": "dranking.models.write_scores",
}

__all__ = [*sorted(_HOME), "__version__"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dranking' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
