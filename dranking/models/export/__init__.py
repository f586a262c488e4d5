"""Export of linear models for search engines, databases and services.

`terms` writes a model as a sum of weight * (value - mean) / scale, which every format can express.
`solr`, `elasticsearch` (also OpenSearch), `ranklib`, `onnx` and `expressions` (Vespa, SQL, Python)
write the formats, and `formats` exports and imports models by the name of a format.
"""
