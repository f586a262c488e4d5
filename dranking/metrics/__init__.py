"""Ranking measures and their conventions, the comparison of models, and files of scores.

The public tools of this field disagree in ways that change the second digit, so every measure
takes a convention by name. A document at rank i (from 1) of a list of n documents, sorted by
descending score, has grade r_i, gain g(r_i) and discount d(i):

========  ========  ==================  ========  ===========  ===============  =================
name      gain      discount d(i)       relevant  ties         none relevant    k > n
========  ========  ==================  ========  ===========  ===============  =================
letor4    2^r - 1   d(1) = d(2) = 1,    r >= 1    file order   scores 0,        NDCG@k = 0, P@k
                    else 1 / log2(i)                           counted          divides by k
letor3    2^r - 1   as letor4           r >= 1    file order   as letor4        NDCG@k = P@k = 0
mslr      2^r - 1   as letor4           r >= 2    file order   as letor4        as letor4
trec      r         1 / log2(i + 1)     r >= 1    document id  as letor4        pads with zeros
standard  2^r - 1   1 / log2(i + 1)     r >= 1    averaged     excluded, and    pads with zeros
                                                               counted as such
========  ========  ==================  ========  ===========  ===============  =================

- Under ``trec``, scores are compared as float32, and tied documents are ordered by descending id,
  compared as byte strings. Under ``standard``, the default, a measure is averaged over the
  permutations of tied documents, in closed form. Models of few features tie often, and file order
  flatters files that are sorted by label; file order exists for parity with LETOR's own tools.
- The LETOR tools define grades 0 to 2 (``letor3``, ``letor4``) and 0 to 4 (``mslr``); other grades
  are an extension of this project.
- LightGBM and XGBoost count a query without relevant documents as 1.

Measures: ``ndcg@k`` is ``sum_{i<=k} g(r_i) d(i)`` over its largest value, and ``dcg@k`` the sum
alone, also of lists shorter than k; ``mean_ndcg`` is the mean of NDCG@k over all k = 1 to n;
``map`` is the mean over queries of AP, the sum of P@i over relevant i divided by the number of
relevant documents in the list; ``recall@k`` is the share of the relevant documents in the list that
are among its first k, for any k; ``hit@k`` is 1 if any of the first k is relevant; ``err@k`` is one
over the rank at which a user ends, who ends at grade r with probability (2^r - 1) / 16 (the highest
grade is 4 under every convention, as in TREC's gdeval); ``rbp`` is rank-biased precision with
persistence 0.8; ``bpref`` and ``infap`` are those of trec_eval, the latter under conventions that
do not average over the orders of ties; ``judged@k`` is the share of labelled documents among the
first k, or among all if there are fewer; ``pairwise_error`` is the share of the pairs of different
relevance that the scores order wrongly, a tie counting 1/2, averaged over the queries that have
such a pair; ``auc`` is 1 minus this error over the pairs of a relevant and an irrelevant document.

Measures are computed per query and block by block, and the values per query are kept: comparisons
pair them. `dranking.compare` gives the bootstrap-t interval of the mean difference, the p-value of
the same statistic with Holm's correction over measures, the permutation test, and wins, ties and
losses. How often the interval holds for few queries stands in the table of
`dranking.metrics.comparison.significance.mean_interval`.

A mean that is looked at again and again, such as that of a running experiment, has no interval of
fixed size that holds at every look; `dranking.metrics.comparison.confidence_sequences` has one that
does.

Modules: `measures` has a file for each family of measures, whose loops are in `kernels`;
`per_query` computes them, `judged_runs` joins runs to judgements of documents, `comparison`
compares two models, `scores` reads and writes stored scores and reads judgements, and
`prediction_files` writes TREC runs, CSV and parquet. A document that was judged and not retrieved
counts in R and in the ideal ranking of all measures, and gains nothing.
"""
