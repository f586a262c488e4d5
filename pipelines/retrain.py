"""One night's retraining, for a scheduler: `python -m pipelines.retrain CONFIG [--set K=V ...]`.

The same as `dranking retrain`, as a function to call from a script or an Airflow task. Prints one
JSON object; exits 0 promoted, 4 rejected, 2 configuration wrong, 3 data wrong, 75 try again later.
"""

from __future__ import annotations

import argparse
import json
import sys

from dranking.errors import DrankingError, RejectedError
from dranking.files.redaction import redacted
from dranking.retrain.config import load_config
from dranking.retrain.runner import retrain


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", help="a TOML file, such as pipelines/configs/retrain.toml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args(arguments)
    try:
        outcome = retrain(load_config(options.config, options.set), resume=options.resume)
    except DrankingError as error:
        print(redacted(f"error: {error}"), file=sys.stderr)
        return error.exit_code
    print(json.dumps(outcome.as_json()))
    return 0 if outcome.accepted else RejectedError.exit_code


if __name__ == "__main__":
    sys.exit(main())
