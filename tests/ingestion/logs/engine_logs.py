"""Feature logs as search engines write them, by hand after the documentation of the engines.

Elasticsearch and OpenSearch: "Logging feature scores" of the documentation of their
learning-to-rank plugins (docs/logging-features.rst of o19s/elasticsearch-learning-to-rank), whose
response for "rambo" this is; the entry without a value is what the plugins log for a query that
does not match, unless ``missing_as_zero`` is set. Solr: "Extracting features" and "Feature vector
customization" of the reference guide (query-guide/pages/learning-to-rank.adoc of apache/solr).
"""

import json

RAMBO = """
{
  "took": 7,
  "timed_out": false,
  "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
  "hits": {
    "total": {"value": 2, "relation": "eq"},
    "max_score": 0.0,
    "hits": [
      {
        "_index": "tmdb",
        "_id": "1370",
        "_score": 20.291,
        "_source": {"title": "Rambo III", "relevance": "a field of the document"},
        "fields": {
          "_ltrlog": [
            {
              "log_entry1": [
                {"name": "title_query", "value": 9.510193},
                {"name": "body_query", "value": 10.7808075}
              ]
            }
          ]
        },
        "matched_queries": ["logged_featureset"]
      },
      {
        "_index": "tmdb",
        "_id": "1369",
        "_score": 0.0,
        "_source": {"title": "First Blood"},
        "fields": {
          "_ltrlog": [
            {"log_entry1": [{"name": "title_query"}, {"name": "body_query", "value": 8.5}]}
          ]
        },
        "matched_queries": ["logged_featureset"]
      }
    ]
  }
}
"""

EMPTY = '{"took": 1, "hits": {"total": {"value": 0, "relation": "eq"}, "hits": []}}'

ROCKY = """
{"took": 2, "hits": {"hits": [{"_index": "tmdb", "_id": "4241", "_score": 0.0, "fields": {"_ltrlog":
[{"log_entry1": [{"name": "title_query", "value": 7}, {"name": "body_query", "value": 0.5}]}]}}]}}
"""

RESPONSES = [json.loads(text) for text in (RAMBO, EMPTY, ROCKY)]
QUERIES = ["rambo", "jaws", "rocky"]

EXPECTED = [
    ("rambo", "1370", [9.510193, 10.7808075]),
    ("rambo", "1369", [None, 8.5]),
    ("rocky", "4241", [7, 0.5]),
]
"""Query, document, and the features title_query and body_query."""

QRELS = "rambo 0 1370 3\nrambo 0 1369 3\nrambo 0 7555 4\njaws 0 578 4\nrocky 0 4241 4\n"


def hits():
    """Each hit with the id of its query."""
    pairs = zip(QUERIES, RESPONSES, strict=True)
    return [{"query_id": query, **hit} for query, found in pairs for hit in found["hits"]["hits"]]


def lines(values):
    """JSON lines."""
    return "".join(json.dumps(value) + "\n" for value in values)


def beside(key="query_id"):
    """Each response beside the id of its query."""
    return [{key: q, "response": r} for q, r in zip(QUERIES, RESPONSES, strict=True)]


FIRST_FORM = [
    {
        "qid": query,
        "_id": document,
        "fields": {
            "_ltrlog": {
                "main": {
                    name: value
                    for name, value in zip(["title_query", "body_query"], values, strict=True)
                    if value is not None
                },
            }
        },
    }
    for query, document, values in EXPECTED[:1] + EXPECTED[2:]
]
"""Hits of the first versions of the plugin, whose logs were objects."""

NAMED = {
    "responses in lines": lines(beside()),
    "responses over lines": json.dumps(beside()[0], indent=2) + "\n\n" + lines(beside()[1:]),
    "an array": json.dumps(beside("qid"), indent=1),
    "hits in lines": lines(hits()),
    "lists of hits": lines(
        [{"q_id": q, "hits": r["hits"]["hits"]} for q, r in zip(QUERIES, RESPONSES, strict=True)]
    ),
    "ids in responses": lines(
        [{"query_id": q, **r} for q, r in zip(QUERIES, RESPONSES, strict=True)]
    ),
    "answers of a client": lines(
        [
            {"query_id": q, "response": {"statusCode": 200, "body": r}}
            for q, r in zip(QUERIES, RESPONSES, strict=True)
        ]
    ),
    "bulk search": json.dumps(
        {"took": 9, "responses": [{"qid": q, **r} for q, r in zip(QUERIES, RESPONSES, strict=True)]}
    ),
}
UNNAMED = {
    "responses in lines": lines(RESPONSES),
    "bulk search": json.dumps({"took": 9, "responses": RESPONSES}),
    "an array over lines": json.dumps(RESPONSES, indent=2),
    "responses after each other": RAMBO + EMPTY + ROCKY,
}

SOLR = """
{
  "responseHeader":{
    "status":0,
    "QTime":0,
    "params":{
      "q":"test",
      "qid":"q7",
      "fl":"id,score,[features]"}},
  "response":{"numFound":2,"start":0,"maxScore":1.959392,"docs":[
      {
        "id":"GB18030TEST",
        "score":1.959392,
        "[features]":"documentRecency=0.020893794,isBook=0.0,originalScore=1.959392"},
      {
        "id":"UTF8TEST",
        "score":1.5513437,
        "[features]":"documentRecency=1.0E-4,isBook=0.0,originalScore=1.5513437"}]
  }}
"""
SOLR_EXPECTED = [
    ("q7", "GB18030TEST", [0.020893794, 0, 1.959392]),
    ("q7", "UTF8TEST", [0.0001, 0, 1.5513437]),
]
"""Query, document, and the features documentRecency, isBook and originalScore."""


def solr(features, query="1"):
    """A line with the response of Solr for one query: features by document."""
    docs = [{"id": document, "[features]": text} for document, text in features.items()]
    response = {"numFound": len(docs), "start": 0, "docs": docs}
    header = {"status": 0, "QTime": 1, "params": {"q": "text", "qid": query}}
    return json.dumps({"responseHeader": header, "response": response}) + "\n"
