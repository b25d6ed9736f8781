"""Losses of a batch that two nodes share: which of them are the whole batch's, by their gradients,
and what is said of each. Prints one JSON object: {loss: [off, said]}.

"old": what is known of a loss is what PyTorch before 2.5 tells.
off: the distance of the shares' mean gradient, weighted by what each share counts, from the whole
batch's, relative to it; said: what the program is told or refused with, the first words.
"""
import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

from evenstep.run import Error
from evenstep.torch.loss import chain, divisor as divisors, told
from evenstep.torch.loss.divisor import Divisor

divisors.TELLS_SHAPES &= sys.argv[1:] != ["old"]

torch.manual_seed(0)
WHOLE, SHARES = 16, (slice(0, 10), slice(10, 16))
x, y = torch.randn(WHOLE, 5), torch.randn(WHOLE, 3)
labels = torch.randint(0, 3, (WHOLE,))
rows = torch.randn(WHOLE, 7, 5)
tokens = torch.randint(0, 3, (WHOLE, 7))
lengths = torch.tensor([3, 7, 1, 5, 2, 6, 4, 7, 2, 5, 1, 2, 3, 1, 6, 2])
real = torch.arange(7)[None] < lengths[:, None]
weights = torch.rand(WHOLE) + 0.1
image, mask = torch.randn(WHOLE, 2, 4, 4), torch.randint(0, 2, (WHOLE, 4, 4)).float()
line, embed, conv = nn.Linear(5, 3), nn.Linear(5, 4), nn.Conv2d(2, 2, 1)
places = nn.Parameter(torch.randn(10, 4))  # as many as the samples of one share
PARAMETERS = [*line.parameters(), *embed.parameters(), *conv.parameters(), places]


def error(s):
    return line(x[s]) - y[s]


def entropies(s):
    return F.cross_entropy(line(x[s]), labels[s], reduction="none")


def of_tokens(s):
    return F.cross_entropy(line(rows[s]).transpose(1, 2), tokens[s], reduction="none")


def unit(s):
    return F.normalize(embed(x[s]), dim=1)


def shape_of(s):
    return conv(image[s]).softmax(1)[:, 1]


def similar(s):
    sims = unit(s) @ F.normalize(embed(x[s] + 0.1), dim=1).t() / 0.1
    return F.cross_entropy(sims, torch.arange(len(sims)))


def centered(s):
    a = embed(x[s])
    return ((a - a.mean(0)) ** 2).mean()


def crossed(s):
    a, b = embed(x[s]), embed(x[s] * 2)
    return ((a.t() @ b / len(a) - torch.eye(4)) ** 2).sum()


def far(s):
    a = embed(x[s])
    return F.relu(torch.cdist(a, a).max(1)[0] - 0.1).mean()


def balanced(s):
    """A mixture's: how many tokens an expert has times its mean probability."""
    gates = line(rows[s]).flatten(0, 1).softmax(1)
    has = F.one_hot(gates.argmax(1), 3).float().mean(0)
    return 3 * (has * gates.mean(0).unsqueeze(0)).sum() + error(s).pow(2).mean()


def in_one_row(s):
    """Parts of samples, as many as each has, one after the other: nodes of graphs, words."""
    return torch.cat([row[:n] for row, n in zip(rows[s], lengths[s])])


def boxed(s):
    """A detector's, of those alone that have a box."""
    has = labels[s] > 0
    return (1 - F.cosine_similarity(line(x[s])[has], y[s][has])).mean()


def attends(s):
    q = embed(rows[s])
    return (torch.softmax(q @ q.transpose(1, 2), -1) @ q).pow(2).mean()


def of_each(s):
    """A loop over samples."""
    return [F.cross_entropy(line(x[i:i + 1]), labels[i:i + 1]) for i in range(s.start, s.stop)]


def picked(s):
    out = line(x[s])
    return [F.cross_entropy(out[i], labels[s][i]) + F.mse_loss(out[i], y[s][i])
            for i in range(len(out))]


def sentences(s):
    return [F.cross_entropy(line(rows[i, :lengths[i]]), tokens[i, :lengths[i]])
            for i in range(s.start, s.stop)]


def boxes(s, loss=F.cross_entropy, of=tokens):
    """A loop over pictures, each with boxes of its own number."""
    return [loss(line(rows[i, :n]), of[i, :n], reduction="sum") / max(1, int(n))
            for i, n in enumerate(lengths[s], s.start)]


wide = nn.Linear(5, 30)
PARAMETERS += wide.parameters()


def decorrelated(s):
    """Barlow twins; five times as many columns as the second share has samples."""
    a, b = ((v - v.mean(0)) / v.std(0) for v in (wide(x[s]), wide(x[s] ** 2)))
    c = a.T @ b / len(a)
    return torch.diagonal(c).add(-1).pow(2).sum() + c.pow(2).triu(1).sum()


def detected(s):
    places = torch.sin(rows[..., :3])
    return {"classes": sum(boxes(s)) / len(x[s]),
            "places": sum(boxes(s, F.l1_loss, places)) / max(1, len(x[s]))}


def two_views(s):
    """SimCLR: each view against all others."""
    views = F.normalize(torch.cat([embed(x[s]), embed(x[s] + 0.1)]), dim=1)
    n, same = len(x[s]), torch.eye(len(views), dtype=torch.bool)
    others = (views @ views.T / 0.5)[~same].view(len(views), -1)
    return F.cross_entropy(others, torch.cat([torch.arange(n) + n - 1, torch.arange(n)]))


def both_ways(s):
    """CLIP, with a factor that is learned."""
    a, b = F.normalize(line(x[s]), dim=-1), F.normalize(line(x[s] * 2 + y[s] @ line.weight), dim=-1)
    logits, which = line.bias[0].exp() * a @ b.t(), torch.arange(len(a))
    return (F.cross_entropy(logits, which) + F.cross_entropy(logits.t(), which)) / 2


def of_one_class(s):
    """Supervised contrastive: a mean over the pairs of a class, of each sample."""
    sims = unit(s) @ unit(s).T / 0.5
    pairs = (labels[s][:, None] == labels[s][None]).float() - torch.eye(len(sims))
    log_share = sims - torch.log(torch.exp(sims).sum(1, keepdim=True))
    return -((pairs * log_share).sum(1) / pairs.sum(1).clamp(min=1)).mean()


def whitened(s):
    """Barlow twins: columns of two views, each less its mean."""
    a, b = (F.batch_norm(embed(v), None, None, training=True) for v in (x[s], x[s] ** 2))
    return (a.T @ b / len(a) - torch.eye(4)).pow(2).sum()


def of_class(s, values):
    return [values[labels[s] == c] for c in range(3) if (labels[s] == c).any()]


def off_their_class(s):
    """Each from its class's mean in the batch: a center loss."""
    a = embed(x[s])
    counts = torch.bincount(labels[s], minlength=3).clamp(min=1)
    means = torch.zeros(3, 4).index_add(0, labels[s], a) / counts[:, None]
    return (a - means[labels[s]]).pow(2).mean()


def apart_by_one_hot(s):
    of = F.one_hot(labels[s], 3).float()
    means = of.T @ embed(x[s]) / of.sum(0).clamp(min=1)[:, None]
    return (means[0] - means[1]).pow(2).sum() + entropies(s).mean()


def prototypes(s):
    """Few-shot: by the distance from each class's mean, where all three have samples."""
    rows_of = of_class(s, embed(x[s]))
    means = torch.stack([r.mean(0) for r in rows_of])
    return F.cross_entropy(-torch.cdist(embed(x[s]), means), labels[s] % len(means))


def partial_likelihood(s):
    """Cox's, of survival: each against those who live longer."""
    risks = line(x[s])[:, 0][y[s][:, 0].argsort(descending=True)]
    return (risks.logcumsumexp(0) - risks).mean()


def correlated(s):
    a = embed(x[s])
    return (torch.einsum("bi,bj->ij", a, a) / len(a) - torch.eye(4)).pow(2).mean()


def ranked(s):
    scores = embed(x[s])[:, 0]
    return F.softplus(scores[None] - scores[:, None]).mean()


def experts(s):
    """A mixture's rows go to one of three experts, and come back to their places."""
    a = embed(rows[s]).flatten(0, 1)
    share, which = line(rows[s]).flatten(0, 1).softmax(1).max(1)
    out = torch.zeros_like(a)
    for e in range(3):
        mine = (which == e).nonzero()[:, 0]
        out = out.index_add(0, mine, a[mine] * share[mine, None] * e)
    return out.pow(2).mean()


def relative_places(s):
    """Learned, for each pair of places."""
    q = embed(torch.sin(x[s][:, None] + torch.arange(10.)[:, None]))
    bias = (places[:, None] - places[None]).sum(-1)
    return (torch.softmax(q @ q.transpose(1, 2) + bias, -1) @ q).pow(2).mean()


def pooled(s):
    """A graph's nodes to one row of each graph."""
    of = torch.repeat_interleave(torch.arange(len(x[s])), lengths[s])
    sums = torch.zeros(len(x[s]), 4).index_add(0, of, embed(in_one_row(s)))
    return (sums / lengths[s][:, None]).pow(2).mean()


def advantages(s):
    gains = y[s][:, 0]
    gains = (gains - gains.mean()) / (gains.std() + 1e-8)
    return -(gains * line(x[s]).log_softmax(1)[:, 0]).mean()


def patches(s):
    """A masked autoencoder's: each sample's own numbers less their mean."""
    return F.mse_loss(line(x[s]), y[s] - y[s].mean(1, keepdim=True))


def textures(s):
    """A Gram matrix of each picture against that of a style."""
    f = conv(image[s]).flatten(2)
    style = torch.ones(WHOLE, 2, 2)
    return 10 * F.mse_loss(f.bmm(f.transpose(1, 2)) / 16, style[:len(f)]) + f.pow(2).mean()


def distilled(s):
    soft = (y[s] / 2).softmax(1)
    kl = F.kl_div((line(x[s]) / 2).log_softmax(1), soft, reduction="batchmean")
    return 0.25 * kl * 4 + 0.75 * F.cross_entropy(line(x[s]), labels[s])


def of_steps(s):
    """A loop over steps of time."""
    return [F.cross_entropy(line(rows[s][:, t]), tokens[s][:, t]) for t in range(7)]


def penalized(s):
    norm = torch.cat([p.flatten() for p in PARAMETERS]).norm()
    return F.mse_loss(line(x[s]), y[s]) + 1e-3 * norm


def low_rank(s):
    return F.mse_loss(F.linear(x[s], line.weight @ embed.weight.t() @ embed.weight), y[s])


LOSSES = {
    # a mean, however it is written: the whole batch's
    "mean of squares": lambda s: 0.5 * (error(s) ** 2).sum(1).mean(),
    "sum / len": lambda s: 0.5 * (error(s) ** 2).sum() / len(x[s]),
    "sum * (1 / len)": lambda s: (error(s) ** 2).sum() * (1 / len(x[s])),
    "sum / (2 * len)": lambda s: (error(s) ** 2).sum() / (2 * len(x[s])),
    "(values / len).sum": lambda s: (error(s) ** 2 / len(x[s])).sum(),
    "mean(0).sum": lambda s: (error(s) ** 2).mean(0).sum(),
    "sum(1).sum(0) / len": lambda s: (error(s) ** 2).sum(1).sum(0) / len(x[s]),
    "mean times batch size": lambda s: F.mse_loss(line(x[s]), y[s]) * WHOLE,
    "mean times len / len": lambda s: F.mse_loss(line(x[s]), y[s]) * len(x[s]) / len(x[s]),
    "mean times 10 in one part": lambda s: (10 * F.mse_loss(line(x[s]), y[s])
                                            + entropies(s).mean()),
    "scaled up": lambda s: F.mse_loss(line(x[s]), y[s]) * torch.tensor(65536.0),
    "norms of rows": lambda s: error(s).norm(dim=1).mean(),
    "attention": attends,
    "penalty of all parameters": penalized,
    "penalty with a learned factor": lambda s: (F.mse_loss(line(x[s]), y[s]) * embed.bias[0].exp()
                                                + conv.bias[0] * (line.weight ** 2).sum()),
    "product of parameters": low_rank,
    "means of pictures": lambda s: conv(image[s]).mean((2, 3)).pow(2).mean(),
    "loop / len": lambda s: sum(of_each(s)) / len(x[s]),
    "loop of len-th parts": lambda s: sum(loss / len(x[s]) for loss in of_each(s)),
    "loop of picked rows / len": lambda s: sum(picked(s)) * (1 / len(x[s])),
    "loop of sentences / len": lambda s: sum(sentences(s), torch.zeros(1)) / len(x[s]),
    "stack of a loop, mean": lambda s: torch.stack(sentences(s)).mean(),
    "stack of a loop, sum / len": lambda s: torch.stack(of_each(s)).sum() / len(x[s]),
    "loop of boxes / len": lambda s: sum(boxes(s)) / len(x[s]),
    "two loops of boxes": lambda s: sum(detected(s).values()),
    "two loops of boxes, halved": lambda s: sum(detected(s).values()) / 2,
    "mean over all boxes": lambda s: F.cross_entropy(line(rows[s])[real[s]], tokens[s][real[s]]),
    "textures": textures,
    "experts": experts,
    "relative places": relative_places,
    "nodes of graphs, pooled": pooled,
    "targets less a sample's own mean": patches,
    "smoothed labels with weights of classes": lambda s: F.cross_entropy(
        line(x[s]), labels[s], weight=torch.tensor([0.2, 1.0, 2.0]), label_smoothing=0.1),
    "distilled": distilled,
    "loop of time steps": lambda s: sum(of_steps(s)) / 7,
    "loop of time steps, added": lambda s: torch.stack(of_steps(s)).sum(),
    # a mean over what each share counts for itself: it weighs that
    "masked": lambda s: (of_tokens(s) * real[s]).sum() / real[s].sum(),
    "masked, times a reciprocal": lambda s: (of_tokens(s) * real[s]).sum() * (1 / real[s].sum()),
    "weighted": lambda s: (entropies(s) * weights[s]).sum() / weights[s].sum(),
    "weighted within": lambda s: (entropies(s) * weights[s] / weights[s].sum()).sum(),
    "nanmean": lambda s: torch.nanmean(of_tokens(s).where(real[s], torch.nan)),
    "masked, by time": lambda s: (of_tokens(s).t() * real[s].t()).sum() / real[s].sum(),
    "mean of the masked / mean of the mask": lambda s: ((of_tokens(s) * real[s]).mean()
                                                        / real[s].float().mean()),
    "the same by a number": lambda s: ((of_tokens(s) * real[s]).mean()
                                       / real[s].float().mean().item()),
    "mean(0) of what is chosen": lambda s: entropies(s)[labels[s] > 0].mean(0),
    "mean of means of chosen rows": lambda s: (error(s) ** 2)[labels[s] > 0].mean(1).mean(),
    "mean of two choices": lambda s: torch.cat([entropies(s)[labels[s] == c]
                                                for c in (0, 1)]).mean(),
    "weights divided by their mean": lambda s: (entropies(s) * weights[s]
                                                / weights[s].mean()).mean(),
    "mean by the targets' mean square": lambda s: (error(s) ** 2).mean() / (y[s] ** 2).mean(),
    "mean by its own value": lambda s: entropies(s).mean() / entropies(s).mean().detach(),
    "two means, one by a constant": lambda s: (entropies(s).mean() / torch.tensor(0.5)
                                               + error(s).pow(2).mean()),
    "tokens in one row, sum / len": lambda s: F.cross_entropy(
        line(rows[s]).flatten(0, 1), tokens[s].flatten(), reduction="sum") / len(x[s]),
    # sums
    "tokens in one row, sum": lambda s: F.cross_entropy(
        line(rows[s]).flatten(0, 1), tokens[s].flatten(), reduction="sum"),
    "values in one row, sum": lambda s: F.mse_loss(
        line(rows[s]).flatten(0, 1), rows[s].flatten(0, 1)[:, :3], reduction="sum"),
    "sum by time": lambda s: of_tokens(s).t().sum(),
    "sum": lambda s: (error(s) ** 2).sum(),
    "half a sum": lambda s: 0.5 * (error(s) ** 2).sum(),
    "sum / 2": lambda s: (error(s) ** 2).sum() / 2,
    "sum(0).mean": lambda s: (error(s) ** 2).sum(0).mean(),
    "sum, scaled up": lambda s: (error(s) ** 2).sum() * torch.tensor(65536.0),
    "sum / batch size": lambda s: (error(s) ** 2).sum() / WHOLE,
    "sum times 1 / batch size": lambda s: (error(s) ** 2).sum() * (1 / WHOLE),
    "weights that add up to 1": lambda s: (entropies(s) * (weights[s] / weights[s].sum())).sum(),
    "loop": lambda s: sum(of_each(s)),
    "loop of picked rows": lambda s: sum(picked(s), torch.zeros(1)),
    "loop of boxes": lambda s: sum(boxes(s)),
    "loop / batch size": lambda s: sum(of_each(s)) / WHOLE,
    "stack of a loop, sum": lambda s: torch.stack(sentences(s)).sum(),
    "mean times len": lambda s: F.mse_loss(line(x[s]), y[s]) * len(x[s]),
    "two means times len": lambda s: (0.05 * F.l1_loss(line(x[s]), y[s]) + entropies(s).mean()
                                      + 1e-3 * line.weight.norm()) * len(x[s]),
    "means in one tensor, times len": lambda s: (torch.stack([
        7.5 * error(s).abs().mean(), entropies(s).mean()]) * len(x[s])).sum(),
    "mean over labels times their number": lambda s: F.cross_entropy(
        line(x[s]), labels[s], ignore_index=0) * (labels[s] != 0).sum(),
    # neither
    "mean and a scaled sum": lambda s: F.mse_loss(line(x[s]), y[s]) + 0.3 * embed(x[s]).abs().sum(),
    "sum / 100": lambda s: (error(s) ** 2).sum() / 100,
    "product of means": lambda s: error(s).abs().mean() * entropies(s).mean(),
    "root": lambda s: (error(s) ** 2).mean().sqrt(),
    "quotient": lambda s: (shape_of(s) * mask[s]).sum() / (shape_of(s) + mask[s]).sum(),
    "cosine of the batch": lambda s: 1 - F.cosine_similarity(line(x[s]).flatten(), y[s].flatten(),
                                                             dim=0),
    "hardest": lambda s: entropies(s).topk(4)[0].mean(),
    "sorted": lambda s: entropies(s).sort(descending=True)[0][:4].mean(),
    "similarities": similar,
    "two views": two_views,
    "both ways": both_ways,
    "of one class": of_one_class,
    "whitened": whitened,
    "centered": centered,
    "cross-correlation": crossed,
    "farthest of the batch": far,
    "deviation within": lambda s: F.relu(1 - embed(x[s]).std(0)).mean() + error(s).pow(2).mean(),
    "roots of columns": lambda s: (error(s) ** 2).mean(0).sqrt().mean(),
    "off their class": off_their_class,
    "classes apart": apart_by_one_hot,
    "prototypes": prototypes,
    "partial likelihood": partial_likelihood,
    "correlated": correlated,
    "ranked": ranked,
    "quantile": lambda s: entropies(s).quantile(0.9),
    "negatives of the batch": lambda s: F.triplet_margin_loss(
        embed(x[s]), embed(x[s] * 2), embed(x[s]).roll(1, 0)),
    "advantages": advantages,
    "targets of unit deviation": lambda s: F.mse_loss(
        line(x[s]), (y[s] - y[s].mean(0)) / y[s].std(0)),
    "mean of classes' means": lambda s: torch.stack(
        [losses.mean() for losses in of_class(s, entropies(s))]).mean(),
    "classes weighted by their numbers": lambda s: F.cross_entropy(
        line(x[s]), labels[s], weight=1 / (1 + torch.bincount(labels[s], minlength=3))),
    "positives weighted by their number": lambda s: F.binary_cross_entropy_with_logits(
        line(x[s]), (y[s] > 0).float(), pos_weight=(y[s] <= 0).sum() / (y[s] > 0).sum()),
    "balance of experts": balanced,
    "rows of unequal numbers": lambda s: F.mse_loss(line(in_one_row(s)), in_one_row(s)[:, :3]),
    "boxes, and all of them": lambda s: boxed(s) + error(s).pow(2).mean(),
    "by weights, and by a number": lambda s: F.cross_entropy(
        line(x[s]), labels[s], weight=torch.tensor([0.1, 1.0, 1.0])) + (
            entropies(s)[labels[s] > 0].sum() / max(1, int((labels[s] > 0).sum()))),
    "weights of the mean 1": lambda s: (entropies(s) * (weights[s] / weights[s].mean())).mean(),
    "mean by its own value, twice": lambda s: (
        entropies(s).mean() / entropies(s).mean().detach()
        + error(s).pow(2).mean() / error(s).pow(2).mean().detach()),
    "means by a mask's mean, and over all": lambda s: (
        (of_tokens(s) * real[s]).mean() / real[s].float().mean() + entropies(s).mean()),
    "mean times its values / those that count": lambda s: (
        (of_tokens(s) * real[s]).mean() * (torch.tensor(7.0 * len(x[s])) / real[s].sum())
        + entropies(s).mean()),
    "rows that are chosen before": lambda s: F.mse_loss(line(x[s][labels[s] > 0]),
                                                        y[s][labels[s] > 0]),
    "divergence of chosen rows": lambda s: F.kl_div(
        line(x[s][labels[s] > 0]).log_softmax(1), y[s][labels[s] > 0].softmax(1),
        reduction="batchmean"),
    "means in a stack": lambda s: torch.stack([error(s).pow(2).mean(), entropies(s).mean(),
                                               error(s).abs().mean()]).mean(),
    "time before the batch": lambda s: line(rows[s].transpose(0, 1)).pow(2).mean(),
    "mean times its number / those that count": lambda s: (
        (entropies(s) * (labels[s] > 0)).mean() * len(x[s]) / (labels[s] > 0).sum()),
    "weights of a mixup": lambda s: (lambda w: w * entropies(s).mean()
                                     + (1 - w) * error(s).abs().mean())(0.3),
    "of wide columns": decorrelated,
    "weights that are learned": lambda s: (
        error(s).pow(2).mean() * (-embed.bias[0]).exp() + embed.bias[0]
        + error(s).abs().mean() / embed.bias[1].exp()),
    "weights of columns": lambda s: (weights[:3] * error(s).abs().mean(0)).sum(),
    "softmax over the batch": lambda s: (line(x[s]).softmax(0) * y[s]).mean(),
}
REFUSALS = ("IS_SUM", "DIVIDED_BY_ALL", "NORMALIZED")
TEXT = {name: getattr(told, name) for name in REFUSALS}
NAMES = {getattr(told, name): name for name in ("SCALED", "CURVED", "RATIO", "COMPARED",
                                                   "SEVERAL_MEANS", "TIMES_COUNT", "BALANCED",
                                                   "RAGGED", "AVERAGED", "IS_SUM")}
NAMES[chain.OLD] = "OLD"


class Run:
    global_batch = WHOLE

    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(NAMES[text])


def gradient(loss):
    grads = torch.autograd.grad(loss, PARAMETERS, allow_unused=True, retain_graph=True)
    return torch.cat([torch.zeros(p.numel()) if g is None else g.flatten()
                      for p, g in zip(PARAMETERS, grads)])


def judged(loss_of):
    """(off, what is said). Each node has two batches of other samples before its share."""
    whole, sum_, counted, run = gradient(loss_of(slice(0, WHOLE))), 0, 0, Run()
    for share in SHARES:
        samples, divisor, counts = share.stop - share.start, Divisor(run), None
        before = 1 if share.start == 0 else -1
        batches = [slice(share.start + i * before, share.stop + i * before) for i in (2, 1, 0)]
        try:
            for batch in batches:
                counts = divisor.of(loss_of(batch), samples)
        except Error as refusal:
            run.said.append(next(n for n in REFUSALS if str(refusal)[:34] == TEXT[n][:34]))
        sum_ = sum_ + (counts or samples) * gradient(loss_of(share))
        counted += counts or samples
    off = (sum_ / counted - whole).norm() / whole.norm()
    return float(off), sorted(set(run.said))


print(json.dumps({name: judged(loss_of) for name, loss_of in LOSSES.items()}))
