"""Plain readers of feature logs: the JSON of search engines, and JSON rows.

Every function takes the text of a log and returns a list of documents, each a dictionary of query,
document, grade and features. A feature with no value is None.
"""

import json


def elasticsearch(text):
    """Responses of Elasticsearch or OpenSearch with ``_ltrlog``, one on each line."""
    documents = []
    for line in text.splitlines():
        if not line.strip():
            continue
        entry = json.loads(line)
        for hit in entry["response"]["hits"]["hits"]:
            features = {}
            for log in hit["fields"]["_ltrlog"]:
                for name in log:
                    for feature in log[name]:
                        features[feature["name"]] = feature.get("value")
            documents.append(_document(entry["query_id"], hit["_id"], None, features))
    return documents


def solr(text):
    """Responses of Solr with ``[features]``, one on each line."""
    documents = []
    for line in text.splitlines():
        entry = json.loads(line)
        for doc in entry["response"]["docs"]:
            pairs = [pair.split("=") for pair in doc["[features]"].split(",") if pair]
            features = {name: float(value) for name, value in pairs}
            query = entry["responseHeader"]["params"]["qid"]
            documents.append(_document(query, doc["id"], None, features))
    return documents


def rows(text):
    """Rows with nested features, one on each line."""
    documents = []
    for line in text.splitlines():
        row = json.loads(line)
        features = {}
        _nested(row["features"], (), features)
        documents.append(_document(row["query_id"], row["doc_id"], row["relevance"], features))
    return documents


def _nested(value, path, features):
    if isinstance(value, dict):
        for key in value:
            _nested(value[key], (*path, key), features)
    elif isinstance(value, list):
        for position, number in enumerate(value):
            features[".".join(path) + f"_{position}"] = number
    else:
        features[".".join(path)] = value


def _document(query, document, grade, features):
    return {"query": query, "document": document, "grade": grade, "features": features}


def judged(documents, judgements):
    """The documents with the grades of judgements, lists of query, document and grade."""
    grades = {}
    for query, document, grade in judgements:
        grades[str(query), str(document)] = grade
    found = []
    for each in documents:
        key = str(each["query"]), str(each["document"])
        found.append({**each, "grade": grades.get(key)})
    return found
