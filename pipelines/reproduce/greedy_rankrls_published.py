"""The tables of the greedy RankRLS paper, as printed: MQ2007 and MQ2008 of LETOR 4.0.

Pahikkala, Airola, Naula, Salakoski (2010).
"""

from __future__ import annotations

from typing import NamedTuple


class Choice(NamedTuple):
    """The values that validation chose: log2 of lambda, number of features, first ten (from 1)."""

    exponent: int
    n_features: int
    features: tuple[int, ...]

    def cells(self) -> tuple[str, int, str]:
        """The cells of a table that show the choice."""
        return f"2^{self.exponent}", self.n_features, " ".join(map(str, self.features))

    def __str__(self) -> str:
        return "{}, {}: {}".format(*self.cells())


class Published(NamedTuple):
    """The paper's figures of one data set.

    Attributes
    ----------
    first_table
        Number of the table of the first measure; the tables of the other measures follow.
    choices
        Choices of greedy RankRLS, fold by fold.
    tables
        Measure -> ranker -> values of test folds 1 to 5 and the mean, as printed.
    """

    first_table: int
    choices: tuple[Choice, ...]
    tables: dict[str, dict[str, str]]


PUBLISHED = {
    "MQ2007": Published(
        first_table=3,
        choices=(
            Choice(8, 11, (39, 19, 25, 23, 32, 16, 43, 22, 5, 33)),
            Choice(6, 40, (39, 32, 19, 26, 23, 16, 5, 33, 18, 3)),
            Choice(9, 46, (39, 27, 23, 19, 13, 18, 42, 33, 16, 5)),
            Choice(8, 44, (39, 28, 45, 23, 43, 33, 13, 18, 22, 15)),
            Choice(7, 12, (39, 25, 19, 43, 23, 29, 22, 18, 5, 16)),
        ),
        tables={
            "map": {
                "greedy-rankrls": "0.4859 0.4571 0.4655 0.4423 0.4709 0.4643",
                "rankrls": "0.4912 0.4573 0.4655 0.4425 0.4687 0.4650",
                "ranksvm": "0.4894 0.4573 0.4676 0.4401 0.4680 0.4645",
            },
            "p@10": {
                "greedy-rankrls": "0.3958 0.3858 0.3684 0.3670 0.3808 0.3796",
                "rankrls": "0.3997 0.3855 0.3684 0.3673 0.3811 0.3804",
                "ranksvm": "0.4036 0.3932 0.3699 0.3652 0.3847 0.3833",
            },
            "mean_ndcg": {
                "greedy-rankrls": "0.5228 0.4840 0.5056 0.4757 0.5033 0.4983",
                "rankrls": "0.5281 0.4841 0.5056 0.4754 0.5003 0.4987",
                "ranksvm": "0.5278 0.4810 0.5042 0.4699 0.5003 0.4966",
            },
            "ndcg@10": {
                "greedy-rankrls": "0.4735 0.4247 0.4466 0.4221 0.4487 0.4431",
                "rankrls": "0.4784 0.4246 0.4466 0.4221 0.4460 0.4435",
                "ranksvm": "0.4818 0.4266 0.4461 0.4163 0.4485 0.4439",
            },
        },
    ),
    "MQ2008": Published(
        first_table=7,
        choices=(
            Choice(0, 1, (39,)),
            Choice(10, 4, (39, 23, 37, 32)),
            Choice(3, 7, (39, 29, 25, 23, 46, 37, 19)),
            Choice(6, 4, (39, 29, 25, 23)),
            Choice(0, 1, (39,)),
        ),
        tables={
            "map": {
                "greedy-rankrls": "0.4311 0.4239 0.4582 0.5283 0.5183 0.4720",
                "rankrls": "0.4524 0.4300 0.4542 0.5225 0.5006 0.4719",
                "ranksvm": "0.4502 0.4213 0.4529 0.5284 0.4950 0.4696",
            },
            "p@10": {
                "greedy-rankrls": "0.2333 0.2178 0.2363 0.2975 0.2484 0.2467",
                "rankrls": "0.2391 0.2217 0.2325 0.2949 0.2503 0.2477",
                "ranksvm": "0.2423 0.2229 0.2357 0.2981 0.2465 0.2491",
            },
            "mean_ndcg": {
                "greedy-rankrls": "0.4454 0.4186 0.4787 0.5403 0.5369 0.4840",
                "rankrls": "0.4633 0.4269 0.4741 0.5407 0.5138 0.4838",
                "ranksvm": "0.4577 0.4296 0.4686 0.5442 0.5159 0.4832",
            },
            "ndcg@10": {
                "greedy-rankrls": "0.1920 0.1585 0.2558 0.2940 0.2254 0.2251",
                "rankrls": "0.2145 0.1669 0.2489 0.2874 0.2165 0.2268",
                "ranksvm": "0.2117 0.1738 0.2494 0.2892 0.2155 0.2279",
            },
        },
    ),
}
