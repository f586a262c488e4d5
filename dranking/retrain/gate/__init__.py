"""The gate: the rules that a challenger must pass to become the champion.

- `gate`: all rules, and the verdict;
- `night_level`: the test of "the challenger is no better" at the level of a night: Student's
  t-test, or the e-value of bets;
- `budget`: the level that the ledger leaves to this test, and sentences about budget and power. The
  levels of any 365 days sum to at most a budget of false promotions
  (`dranking.retrain.registry.ledger`, after Lan and DeMets 1983);
- `false_discoveries`: the levels of e-LOND, which bound the share of false promotions instead (Xu
  and Ramdas 2024);
- `fresh_queries`: parts of the judged queries on which no champion was chosen;
- `ladder`: the best measure so far, reported in steps (Blum and Hardt 2015).
"""
