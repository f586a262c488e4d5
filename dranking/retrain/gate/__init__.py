"""The gate: the rules that a challenger must pass to become the champion.

- `gate`: all rules, and the verdict;
- `comparison`: rules about the difference to the champion, of all queries and of segments;
- `bets`: the test of "the challenger is no better" by the final capital of bets, and what the test
  costs in queries;
- `budget`: the level that the ledger leaves to this test (`dranking.retrain.registry.ledger`), and
  sentences about budget and power.
"""
