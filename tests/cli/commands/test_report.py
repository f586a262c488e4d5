"""`dranking report`: the footer says what the page was made from and by."""

import html
import re


def test_the_footer_has_lambda_dates_files_command_and_versions(dranking, letor, tmp_path):
    data, model, page = letor(), tmp_path / "model.json", tmp_path / "page.html"
    code, _, err = dranking(
        "select", data, "--n-features", 2, "--regularization", "2^3", "--output", model
    )
    assert code == 0, err
    code, _, err = dranking(
        "report", model, data, "--output", page, "--metric", "map",
        "--storage-option", "secret_key=hush", "--overwrite",
    )  # fmt: skip
    assert code == 0, err
    text = html.unescape(page.read_text())
    origin = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text.partition("<footer>")[2]))
    assert origin["lambda"] == "8"
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", origin["page written"])
    assert origin["file of the model"].startswith(f"{model}, written 20")
    assert origin["file of the judged data"].startswith(f"{data}, written 20")
    assert origin["command"].startswith(f"dranking report {model} {data} ")
    assert "--metric map" in origin["command"]
    assert "--storage-option secret_key=..." in origin["command"]
    assert "hush" not in text
    assert re.match(r"dranking .*, numpy .*, python 3", origin["model trained with"])
