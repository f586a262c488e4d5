"""Credentials are hidden in texts."""

import base64
import json

import pytest

from dranking.errors import DrankingError
from dranking.files.places import as_place
from dranking.redaction import has_credentials, redacted, without_secrets

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


@pytest.mark.parametrize("kind", [str, str.encode])
def test_keys_of_encryption_are_hidden_in_every_form(kind):
    """As s3fs takes them, as text or bytes, and as the header of a request has them."""
    secret = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": kind(SECRET)}
    options = {"s3_additional_kwargs": secret}
    header = base64.b64encode(SECRET.encode()).decode()
    told = without_secrets(f"{options}, customer-key: {header}", options)
    assert SECRET not in told
    assert header not in told
    assert "AES256" in told


def test_a_short_value_is_hidden_as_a_word_and_leaves_words_readable():
    options = {"connect": {"partition_key": "d"}}
    assert without_secrets("field 'd' was added; pass: d", options) == (
        "field '***' was added; pass: ***"
    )


def test_errors_hide_credentials_wherever_their_text_came_from():
    told = str(DrankingError(f"AccountName=us;AccountKey={SECRET}==;x and s3://me:{SECRET}@b/c"))
    assert told == "AccountName=us;AccountKey=***;x and s3://***@b/c"


@pytest.mark.parametrize(
    "url",
    [
        "hdfs://host:8020/a@b",
        "sftp://host/home/a@b:c",
        "abfs://container@account.dfs.core.windows.net/lake",
        "s3://bucket/2026-11-23T11:00/part",
    ],
)
def test_an_at_sign_in_a_path_or_before_an_account_is_no_password(url):
    assert not has_credentials(url)
    assert redacted(url) == url


def test_a_path_with_an_at_sign_is_a_place():
    assert str(as_place("memory://host:8020/a@b")).endswith("a@b")
