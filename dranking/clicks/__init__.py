"""Learning from clicks: counts from logs, propensities of examination, labels, values of rankers.

The model of clicks is position-based: the probability of a click on document d of query q at
position k is `p_k r_qd`, with the propensity `p_k` that a user examines position k (`p_1 = 1`) and
the relevance `r_qd`; with trust bias `a_k r_qd + b_k`.

A folder for each step: `logs` reads events, `sessions` counts what a user saw together, `counting`
and `store` make and hold counts by night; `propensities`, `labels` and `off_policy` estimate from
them; `interleaving` compares two rankers on pages of both, and `evaluation` measures rankers on
clicks. `rows` holds the rows that tasks send each other, and `kernels` reads CSV.

What counts contain
-------------------
A log of clicks is collapsed to impressions n and clicks c for each query, document, position,
night, context and arm (`counting`, `store`, `counts`), with sums of a weight of the clicks and of
its square if the log has one. Under the model above with independent clicks they are sufficient:
labels and propensities need nothing else. They do not hold

- that clicks of one session, or of one user, depend on each other. Within a query this does no harm
  to intervals over queries; users who come back with other queries make them too narrow. With
  counts by user, made in the same pass (`--users`), intervals of propensities
  (`propensities.user_scores`) and of values of rankers (`off_policy.value_errors`) add what such
  users do;
- the order of clicks, and the other documents of the page: models of cascades need the log itself;
- what was never shown.

A result of a session (query, document, position, context, arm) is one impression however often its
event is there, and one click if one of these events is a click; filters and repeated events act
before counting. A session is what one user saw together, such as one page of results; where the
column of sessions names whole visits, a query that is asked twice in a visit counts once, and other
results at the second time are an error. A session belongs to the night (the date in UTC) of its
first event. Events that are appended later are added to their session, which is counted anew
(`counting.appends`). Nothing is subtracted, also when a night leaves the window: the kept nights
are added anew.

When this is right, and what happens otherwise
----------------------------------------------
- *Labels* (`labels`) have the mean of relevance, up to a constant for each query, if users click by
  the model with these propensities and relevance does not change within the window. With wrong
  propensities no number of clicks helps: the error stays. `ratio` labels of rarely shown documents
  are drawn to the prior, clipped `ips` labels of deep ones are too low; documents that were never
  shown have no label.
- *Comparisons* of features and lambda by leave-query-out error stay fair with `ips` labels without
  clipping, propensities that do not come from the same clicks, clicks of different queries that are
  independent, query weights that do not depend on clicks, and features not made of these clicks.
  Otherwise the noise of the labels favours some features. The error is one on shown documents.
- *Propensities* (`propensities.harvest`) need arms to which sessions were assigned independently of
  users and clicks. Rankers that learned from these clicks promote lucky documents; across nights
  the curve is then too flat (8 to 109 % at position 10 in simulation), with narrow intervals around
  the wrong numbers. Intervals hold for queries drawn anew (of few queries, only where these have
  about as many clicks); with counts by user, and without trust bias, for users who come back with
  other queries too.
- *Values of rankers* (`off_policy`) need clicks of other nights or queries than trained on, and are
  bounds where documents were hardly shown; if less than half of the pages is covered, a ranker has
  no value. Values weigh queries by their sessions, and assume that relevance has not changed since.
- *P-values of nights* (`dranking.retrain.registry.ledger`) hold given the champion, on queries or
  nights that no champion was chosen on; on others a champion's luck makes later challengers look
  worse.
- *Intervals of interleaving* (`interleaving.preference_sequence`) hold at every look for
  independent users from one population and rankers that stay the same; one person with several
  ids makes them too narrow.

Proofs and derivations stand in ``THEORY.md`` beside this file.

Ids of sessions are not stored, except for salted hashes of those that may go on. Ids of users are
stored as salted hashes, and so are query texts if asked for. The salt stands in the manifest of the
store: whoever holds the store can test a guess of a user's id.
"""
