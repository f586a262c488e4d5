"""Scheduled retraining: a run trains a challenger and promotes it if the gate accepts it.

`runner.retrain` runs nine stages in order. Every stage is a function in `stages.stages` from the
results of earlier stages to its own result, a frozen dataclass in `results`:

| stage | reads | writes | result |
|---|---|---|---|
| validate | configuration | | `Validated` |
| ingest | new sources | ``parts/`` | `Ingested` |
| statistics | new parts, clicks | ``statistics/``, version's ``profile.npz`` | `StatisticsUpdate` |
| tune | statistics or parts | ``tuned.json``, ``grid.json`` | `Tuned` |
| fit | statistics or parts, or ``tuned.json`` | version's model | `Fitted` |
| evaluate | model, champion, holdout parts | version's ``per_query.parquet`` | `Evaluated` |
| gate | measures of challenger and champion, segments | version's ``gate.json`` | `Verdict` |
| export | model, statistics or parts | version's ``exports/``, cards and report | `Exported` |
| publish | the version's files | the registry | `Published` |

The version's files, ``tuned.json`` and ``grid.json`` are in the folder of the run, ``runs/RUN_ID``
of the working directory; RUN_ID is a digest of configuration, data and version of the code. Every
stage leaves a done-marker with its result there (`markers`), and `run_plan` skips the stages with
markers: a run that was killed anywhere is finished by the next run.

Each subject has a folder: `config` has the configuration; `sources` recognises parts by their
content, and champions that were trained on withdrawn parts (`withdrawal`); `registry` has the
versions, the aliases, the ledger of the gate and the history of the nights. `gate` holds the rules:
`gate.bets`, `gate.budget` and the ledger bound how often the gate promotes by chance. `workflows`
holds the stages' work for linear and for bilinear rankers. In `stages`, `judging` judges on the
judged queries of a night and enters the test in the ledger; without judged queries, `click_gate`
compares on the clicks that `workflows.later_clicks` holds out. `monitoring` has the event log, the
record with which every run ends, Prometheus, MLflow and the page over all nights. `quarantine` sets
wrong parts aside.

Exit codes of the command: 0 promoted, rejected (another code by ``--reject-exit``), postponed or
unchanged; 2 the configuration is wrong; 3 the data is wrong or missing; 75 another run is going on,
a cluster cannot be reached, or the champion or the data has changed meanwhile: try again later.
"""
