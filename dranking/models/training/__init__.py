"""Parts of iterative trainings: state, learning curve, validation, checkpoint, loop over epochs.

- `state`: the state of a training between two epochs, and the result of one shard of an epoch;
- `learning_curve`: a point for each epoch, and the figure of the points;
- `validation`: the metric after each epoch, and early stopping;
- `checkpoint`: a directory of facts and arrays from which an interrupted training is resumed;
- `epochs`: the loop over the epochs, which uses these four parts.

The stochastic pairwise rankers (`dranking.pairwise`) and the bilinear ranker
(`dranking.bilinear.training`) define what one epoch does; cutting planes
(`dranking.max_margin.cutting_planes`) use the checkpoint alone.
"""
