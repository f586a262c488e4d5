"""Two calls of every command, which stand at the end of its help."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final = {
    "ingest": (
        "clicks.parquet --qid-column query_id --relevance-column grade -o train.zarr",
        "new.parquet --append -o train.zarr",
    ),
    "select": (
        "train.zarr --n-features 10 -o model.json",
        "train.zarr --n-features 10 --forms raw,log --forbid clicks,dwell -o model.json",
    ),
    "tune": (
        "train.zarr -o model.json",
        "train.zarr --validation valid.zarr --time 10m --rule smaller -o model.json",
    ),
    "evaluate": (
        "model.json test.zarr --metric ndcg@10,map",
        "bm25.run qrels.txt --by queries.csv:segment",
    ),
    "predict": (
        "model.json new.parquet -o scores",
        "model.json new.parquet --explain -o why.csv",
    ),
    "compare": (
        "new.json old.json test.zarr --metric ndcg@10",
        "a.run b.run c.run qrels.txt --format latex",
    ),
    "fuse": (
        "bm25.run dense.run -o fused.run",
        "bm25.run dense.run --method learned --qrels qrels.txt -o fused.run",
    ),
    "bounds": (
        "model.json train.zarr",
        "model.json train.zarr --delta 0.01 --json",
    ),
    "export": (
        "model.json --format solr -o solr.json",
        "model.json --format vespa --feature-names names.json -o model.profile",
    ),
    "info": (
        "train.zarr",
        "model.json --json",
    ),
    "clean": (
        "train.zarr",
        "s3://lake/train.zarr --days 0",
    ),
    "quickstart": (
        "",
        "-o digits --seed 1",
    ),
    "warm": (
        "",
        "--json",
    ),
    "report": (
        "model.json test.zarr --champion old.json --train train.zarr -o report.html",
        "a.run b.run qrels.txt -o runs.html",
    ),
    "retrain": (
        "nightly.toml",
        "nightly.toml --set data.null=zero --json",
    ),
    "train rankrls": (
        "train.zarr -o model.json",
        "train.zarr --regularization 2^-5..2^5 --normalize standard -o model.json",
    ),
    "train ranksvm": (
        "train.zarr -o model.json",
        "train.zarr --loss hinge --regularization 2^-8 -o model.json",
    ),
    "train ranklogistic": (
        "train.zarr -o model.json",
        "train.zarr --normalize standard --regularization 2^-8 -o model.json",
    ),
    "train spd": (
        "train.zarr -o model.json",
        "train.zarr --validation valid.zarr --patience 3 -o model.json",
    ),
    "train lcra": (
        "train.zarr --unlabelled new.zarr -o model.json",
        "train.zarr --unlabelled new.zarr --mu 0.5 --seed 1 -o model.json",
    ),
    "train max-margin": (
        "train.zarr -o model.json",
        "train.zarr --loss ndcg --normalize standard -o model.json",
    ),
    "train bilinear": (
        "texts.parquet -o model",
        "texts.parquet --queries queries.parquet --qrels qrels.txt -o model",
    ),
    "stats build": (
        "train.zarr -o statistics",
        "train.zarr --null zero -o statistics",
    ),
    "stats append": (
        "statistics new.zarr",
        "statistics new.zarr --json",
    ),
    "stats relabel": (
        "statistics relabelled.zarr",
        "statistics relabelled.zarr --json",
    ),
    "stats expire": (
        "statistics --before 2026-01-01",
        "statistics --before 2026-01-01 --json",
    ),
    "clicks build": (
        "logs.parquet -o clicks.store",
        "logs.parquet --append -o clicks.store",
    ),
    "clicks info": (
        "clicks.store",
        "clicks.store --json",
    ),
    "clicks propensities": (
        "clicks.store -o propensities.json",
        "clicks.store --seed 1 -o propensities.json",
    ),
    "clicks label": (
        "clicks.store train.zarr --propensities propensities.json -o labelled.zarr",
        "clicks.store train.zarr --propensities propensities.json --overwrite -o labelled.zarr",
    ),
    "registry list": (
        "registry",
        "registry --json",
    ),
    "registry show": (
        "registry",
        "registry 000003 --json",
    ),
    "registry promote": (
        "registry 000003",
        "registry 000003 --json",
    ),
    "registry rollback": (
        "registry",
        "registry --json",
    ),
    "registry prune": (
        "registry --keep 10",
        "registry --keep 10 --json",
    ),
    "registry report": (
        "registry -o nights.html",
        "registry --overwrite -o nights.html",
    ),
    "interleave analyse": (
        "credits.parquet",
        "credits.parquet --json",
    ),
}
"""The arguments of two calls, by the name of the command."""
