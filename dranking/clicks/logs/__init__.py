"""Logs of clicks: files, columns, and rows of one form, whatever the log looks like.

A log is read as *events*: a result that was shown, clicked or not, or a click alone. Three kinds of
logs give events:

| kind | a row is |
| --- | --- |
| `rows` | a result that was shown: session, query, document, position, clicked, time |
| `lists` | a session: lists of documents and of clicks, and perhaps of positions |
| `ubi` | a query or an event of OpenSearch's User Behavior Insights (1.0 to 1.3) |

What cannot be an event is counted by its cause (`problems.PROBLEMS`), and left out.
"""
