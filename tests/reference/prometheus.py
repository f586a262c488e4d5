"""The text format of Prometheus, read by its grammar (exposition formats, text 0.0.4)."""

import re

NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')


def samples_of(text):
    """Values by name and sorted labels; every line must be as the format has it.

    All lines of a metric stand together, HELP and TYPE before its samples, and no sample comes
    twice.
    """
    assert text.endswith("\n")
    found, kinds, helped, order = {}, {}, set(), []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, meaning = re.fullmatch(rf"# HELP ({NAME}) (.+)", line).groups()
            assert name not in helped
            assert meaning.strip()
            helped.add(name)
        elif line.startswith("# TYPE "):
            name, kind = re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge)", line).groups()
            assert name not in kinds
            kinds[name] = kind
        else:
            name, labels, value = re.fullmatch(rf"({NAME})\{{(.*)\}} (\S+)", line).groups()
            assert name in kinds
            assert name in helped
            key = name, tuple(sorted(_labels(labels).items()))
            assert key not in found
            found[key] = float(value)
        if not order or order[-1] != name:
            assert name not in order, "lines of a metric stand together"
            order.append(name)
    return found


def _labels(text):
    found = {}
    while text:
        match = LABEL.match(text)
        assert match, text
        name, value, _ = match.groups()
        assert name not in found
        found[name] = re.sub(r"\\(.)", lambda each: "\n" if each[1] == "n" else each[1], value)
        text = text[match.end() :]
    return found
