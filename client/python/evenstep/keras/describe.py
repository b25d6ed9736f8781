"""What the rank is told of a Keras program: its weights, its optimizers, its loss and its data."""

from collections import Counter

import keras
from keras import tree

from ..run import Error, Run
from .module import path_of
from .steps import Steps


class Together(keras.Model):
    """Several networks as one model, which is used for its weights alone."""

    def __init__(self, networks):
        super().__init__()
        self.networks = networks
        self.built = True


def norms_of(model):
    """(layer, statistic, index of its mean or -1) for each batch norm's moving mean and
    variance."""
    found = []
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            found.append((layer, layer.moving_mean, -1))
            found.append((layer, layer.moving_variance, len(found) - 1))
    return found


def weights_of(model, frozen):
    """The weights that train, and those that would train if no layer was frozen, in the model's
    order."""
    of_layers = [v for layer in model._flatten_layers() for v in layer._trainable_variables]
    known = {id(v) for v in of_layers if frozen or v.trainable}
    known |= {id(v) for v in model.trainable_variables}
    return [v for v in model.variables if id(v) in known]


def _rule(optimizer, model):
    def figure(name):
        value = getattr(optimizer, name, None)
        return float(value) if isinstance(value, (int, float)) else 0.0

    changed = "clipnorm clipvalue global_clipnorm use_ema gradient_accumulation_steps".split()
    kind = type(optimizer)  # on PyTorch a subclass of SGD that Keras has
    plain = issubclass(kind, keras.optimizers.SGD) and kind.__module__.startswith("keras.")
    # Keras' step applies constraints, a server's does not
    plain &= not any(v.constraint for v in model.trainable_variables)
    return {
        "name": type(optimizer).__name__,
        "learning_rate": float(keras.ops.convert_to_numpy(optimizer.learning_rate)),
        "momentum": figure("momentum"),
        "nesterov": int(bool(getattr(optimizer, "nesterov", False))),
        "weight_decay": 0.0,
        "server": int(
            plain
            and not getattr(optimizer, "weight_decay", None)
            and not any(getattr(optimizer, name, None) for name in changed)
        ),
    }


def optimizers_of(model):
    """The optimizers that a model with its own train_step keeps as attributes (a GAN's), or
    compile()'s."""
    own = [o for o in vars(model).values() if isinstance(o, keras.optimizers.Optimizer)]
    return [o for o in own if o is not model.optimizer] or [model.optimizer]


def rule_of(optimizers, model):
    """The optimizers as the rank knows them. A server makes the steps only of a single one."""
    told = [_rule(o, model) for o in optimizers]
    if len(told) == 1:
        return told[0]
    return {**told[0], "name": ", ".join(one["name"] for one in told), "server": 0}


def is_sum(loss):
    """Whether the `loss` that compile() was given adds up the samples' losses. For a name or a
    function Keras takes their mean."""
    given = [one for one in tree.flatten(loss) if one is not None]
    kinds = [getattr(one, "reduction", "mean") for one in given]
    if any(kind in (None, "none") for kind in kinds):
        raise Error(
            'a loss with reduction="none" is one number for each sample, which TensorFlow adds up: '
            'leave it out for their mean, or take reduction="sum"'
        )
    sums = [kind == "sum" for kind in kinds]
    if any(sums) and not all(sums):
        raise Error(
            'losses with reduction="sum" and means stand side by side: over several nodes they '
            "have different weights, so all of a model's losses are of one kind"
        )
    return any(sums)


def _check_is_one_replica(model):
    """Refuses a model that TensorFlow distributes over the node's devices by a strategy of its
    own."""
    strategy = type(getattr(model, "distribute_strategy", None)).__name__
    if strategy not in ("NoneType", "_DefaultDistributionStrategy"):
        raise Error(
            "the model was made within the scope of a %s, which distributes it by itself: make and "
            "compile it without strategy.scope(), since each node trains one replica" % strategy
        )


def _check_takes_any_size(model):
    """Refuses layers that need batches of one size or the same rows in each step: a node's share of
    a batch changes."""
    for layer in model._flatten_layers():
        if getattr(layer, "stateful", False):
            raise Error(
                "the layer '%s' keeps a state from batch to batch (stateful=True), but a node's "
                "share of the next batch has other rows: take stateful=False and longer sequences"
                % layer.name
            )
    if isinstance(model, keras.Sequential):
        # without a keras.Input it has the size of the batch that built it, but takes other sizes
        return
    sizes = {entry.shape[0] for entry in tree.flatten(getattr(model, "inputs", None) or ())}
    if sizes - {None}:
        raise Error(
            "the model's input has a fixed number of rows, %d, but a node has a share of each "
            "batch: leave it out, keras.Input(shape=…) in place of batch_shape=… or batch_size=…"
            % max(sizes - {None})
        )


def _tensors(variables):
    """The weights for the rank, each with a unique name: a copy of a network
    (keras.models.clone_model) has the same paths as the original."""
    met, told = Counter(), []
    for v in variables:
        path = path_of(v)
        met[path] += 1
        name = path if met[path] == 1 else "%s:%d" % (path, met[path])
        told.append({"name": name, "shape": list(v.shape)})
    return told


def join(model, optimizers, weights, rows, told, sums):
    """Joins the run. Returns it and the model's steps in it."""
    params = _tensors(weights)
    norms = norms_of(model)
    stats = [
        {**told, "mean_of": m} for told, (_, _, m) in zip(_tensors([v for _, v, _ in norms]), norms)
    ]
    about = {
        "framework": "keras %s on %s" % (keras.__version__, keras.backend.backend()),
        "samples": rows.count,
        "global_batch": rows.batch,
        "in_order": int(not told["shuffle"]),
        "sums": int(sums),
    }
    run = Run(about, rule_of(optimizers, model), params, stats)
    for network in model.networks if isinstance(model, Together) else [model]:
        _check_is_one_replica(network)
        if run.workers > 1:
            _check_takes_any_size(network)
    return run, Steps(run, model, optimizers, weights, norms, sums)
