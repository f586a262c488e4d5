"""RankRLS: the regularised pairwise squared loss over all features, in closed form.

`RankRLS` solves the normal equations; `RankRLSCV` chooses lambda by the exact leave-query-out
error, without refitting. ``THEORY.md`` beside this file holds the objective, the shortcut and its
paper, Pahikkala, Airola, Naula and Salakoski (2010).
"""
