"""Losses of single samples, which a program adds up itself:

for x, y in zip(batch, labels): loss = loss + loss_fn(model(x), y), or a stack of such numbers. Each
is a mean over its own sample's values, so the whole is a sum over the samples of the batch.
"""

from .graph import DEPTH_MOST, constant_of, inputs_of, kind_of, of_parameters, shape_out

_LOOKS_MOST = 16
_PICKS = {"SelectBackward", "UnbindBackward"}


def _is_number(node):
    return all(n == 1 for n in shape_out(node))


def _terms(node):
    """The numbers that were added up one after the other, or stacked."""
    if kind_of(node) == "StackBackward":
        return inputs_of(node)
    terms = []
    while kind_of(node) == "AddBackward" and _is_number(node):
        inputs = inputs_of(node)
        if not inputs:
            return terms
        terms += inputs[1:]
        node = inputs[0]
    return [*terms, node]


def _is_of_one(node, samples):
    """Whether a number comes from a part of the batch, since it has other rows than the batch."""
    for _ in range(DEPTH_MOST):
        inputs = inputs_of(node)
        if not inputs or kind_of(node) in _PICKS:
            return bool(inputs) and shape_out(inputs[0])[0] == samples
        if not _is_number(inputs[0]):
            rows, *others = shape_out(inputs[0])
            return rows % samples != 0 or (not others and "NllLoss" in type(node).__name__)
        node = inputs[0]
    return False


def loop_over_samples(node, samples):
    """The losses that a loop over the samples of a batch added up; empty: there is no such loop."""
    if samples < 2 or kind_of(node) not in ("AddBackward", "StackBackward"):
        return []
    terms = _terms(node)
    if len(terms) < samples or not all(map(_is_number, terms)):
        return []
    terms = [t for t in terms if not of_parameters(t)]
    if len(terms) < samples:
        return []
    # each loss has so many parts, and the first one's are among the terms
    parts = len(_terms(terms[0]))
    if len(terms) not in (samples, samples + parts - 1):
        return []
    of_one = [t for t in terms if _is_of_one(t, samples)]
    return of_one if 2 * len(of_one) > samples else []  # some losses have as many rows by chance


def have_own_divisors(losses):
    """Whether each loss is divided by a number of its sample, such as the boxes of a picture. Then
    it is the sample's mean."""
    by = [constant_of(loss) for loss in losses if kind_of(loss) == "DivBackward"]
    return len({None if value is None else float(value) for value in by[:_LOOKS_MOST]}) > 1
