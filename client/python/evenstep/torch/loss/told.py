"""The sentences that tell a program about its loss. Some of them end the run."""

SEVERAL_MEANS = (
    "the loss adds means over several numbers, of samples and of labels with weights or without "
    "those that are ignored: the mean over nodes is not the loss of the whole batch. Where "
    "gradients are summed (sync), a.backward(retain_graph=True); b.backward() in place of "
    "(a + b).backward() weighs each by its own number; elsewhere evenstep.weight(n) before "
    "backward() says what a batch counts"
)
RATIO = (
    "the loss is a quotient of two sums over the batch, as a Dice loss: each node has that of its "
    "own samples, and their mean is not the loss of the whole batch; a loss for each sample, of "
    "which the mean is taken, is the same on any number of nodes"
)
CURVED = (
    "the loss is the root, the norm, the maximum or another function of all samples of the batch "
    "that is no mean over them: each node has that of its own samples, and their mean is not the "
    "loss of the whole batch; a mean square error is the same on any number of nodes, and its root "
    "is not"
)
COMPARED = (
    "the loss compares the samples of a batch with each other (a contrastive loss, a mean or "
    "deviation over the batch within the network, the hardest samples, advantages less their "
    "mean): each node compares those of its own share, so it depends on how the batch is shared out"
)
BALANCED = (
    "the loss multiplies means over the batch by numbers that change with the batch, such as how "
    "many tokens each expert of a mixture has, or weighs classes by such: if they come from the "
    "samples, each node has those of its own share, so the loss depends on how the batch is shared "
    "out"
)
SCALED = (
    "the loss has a sum over the samples of the batch in it, times or divided by a number that is "
    "not the number of its samples: if that number is a constant, the mean over nodes is not the "
    "loss of the whole batch; `loss.sum() / len(x)` is a mean, prepare(…, reduction=\"sum\") takes "
    "a sum as one, and evenstep.weight(n) before backward() says what else a batch counts"
)
RAGGED = (
    "the loss is a mean over values of which samples have unequal numbers (nodes of graphs, chosen "
    "boxes), and the batch counts as its samples: evenstep.weight(n) before backward(), with the "
    "number of these values, makes the mean over nodes that of the whole batch"
)
NORMALIZED = (
    "the loss is a sum with weights that add up to 1 over the batch, on each node over its own "
    "samples: evenstep.weight(w.sum()) before backward(), with the weights as they were before, "
    "makes the mean over nodes that of the whole batch"
)
AVERAGED = (
    "the loss is a mean with weights of which the mean over the batch is 1, on each node over its "
    "own samples: evenstep.weight(w.sum()) before backward(), with the weights as they were, "
    "makes the mean over nodes that of the whole batch"
)
UNEVEN = (
    "losses.backward(gradient) gives each loss of the batch a weight of its own, and the batch "
    "counts as its samples: that is the whole batch's where the weights are divided by "
    "len(losses); evenstep.weight(n) before backward() says what else a batch counts"
)
IS_SUM = (
    "the loss is a sum over the samples of the batch, and not their mean: "
    'prepare(…, reduction="sum") says so (evenstep.weight(n) before backward() says what else a '
    "batch counts)"
)
DIVIDED_BY_ALL = (
    "the loss is a sum that is divided by %d in each step, the batch size, of which this node has "
    '%d samples: prepare(…, reduction="sum") takes it as the sum that it is, and '
    "`loss.sum() / len(x)` is a mean"
)
EITHER = (
    "the loss is a sum that is divided by the batch size, which is the number of values that this "
    "node's samples have as well: if it is meant as the batch size, the mean over nodes divides by "
    "it once more, and `loss.sum(…) / len(x)` or prepare(…, reduction=\"sum\") is right; a mean "
    "over all values is loss.mean()"
)
LEAST = (
    "the loss is a sum that is divided by a number which is 1 in one batch and more in others. If "
    "1 is the least that it may be (max(1, n)) and this node's share had none of what is counted, "
    "the share counts as one, and the mean over nodes is not the loss of the whole batch: "
    "evenstep.weight(n) before backward(), with the number as it was, is right where such a share "
    "has no loss; else divide by a number that is the same on each node"
)
PENALTY = (
    "the loss has a part that depends on parameters alone (a penalty, the divergence of weights), "
    "and prepare(…, reduction=\"sum\") adds the losses of all nodes up, so that part counts once "
    "for each node: divide it by evenstep.world_size()"
)
TIMES_COUNT = (
    "the loss is a mean times the number of the samples that this node has of the batch: unless "
    "that number is a constant, this makes a sum of it, which prepare(…, reduction=\"sum\") says"
)

# said when several batches have the same divisor; in one it may be the number of samples that count
HALVED, DIVIDED_ALIKE = "a sum times a half or more", "a sum divided by a number"
OF_SEVERAL = {DIVIDED_BY_ALL, HALVED, DIVIDED_ALIKE, TIMES_COUNT, AVERAGED}
