"""Credentials are hidden in texts."""

import json

from dranking.files.redaction import redacted, without_secrets

SECRET = "pl4nted-s3cret"


def test_what_is_hidden():
    url = f"s3://AKIA:{SECRET}/a+b@bucket/models"
    assert redacted(f"{url} and https://host/x?sig={SECRET}&b=1") == (
        "s3://***@bucket/models and https://host/x?sig=***&b=1"
    )
    options = {"connect_options": {"username": "me", "password": SECRET}, "api_key": "k3y"}
    for name in ("connection_string", "dsn", "sas", "signature"):
        assert without_secrets(f"no {SECRET}", {name: SECRET}) == "no ***"
    text = json.dumps(options)
    assert without_secrets(text, options) == text.replace(SECRET, "***").replace("k3y", "***")
