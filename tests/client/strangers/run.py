"""Runs a program of this folder as a script, and keeps the parameters that it ends with: a case of
module `strangers.run` is a program's name, with arguments of that test after it (ARGUMENTS)."""

import os
import runpy
import sys

import numpy as np

import evenstep

HERE = os.path.dirname(os.path.abspath(__file__))
ARGUMENTS = {"mnist_argparse": ["--batch-size", "192"]}


def _values(models):
    """Parameters and buffers of PyTorch modules, or parameters of a Keras model, by name."""
    values = {}
    for i, model in enumerate(models):
        if hasattr(model, "state_dict"):
            named = {k: v.detach().float().numpy() for k, v in model.state_dict().items()}
        else:
            named = {v.path: np.array(v) for v in model.trainable_variables}
        values.update({f"{i}.{k}".replace("/", "."): v for k, v in named.items()})
    return values


def _run(name, output):
    models, prepare = [], evenstep.prepare

    def prepare_and_keep(*objects, **options):
        models.extend(o for o in objects if hasattr(o, "named_modules") or hasattr(o, "fit"))
        return prepare(*objects, **options)

    evenstep.prepare = prepare_and_keep
    sys.argv = [name + ".py", *ARGUMENTS.get(name, [])]
    runpy.run_path(os.path.join(HERE, name + ".py"), run_name="__main__")
    np.savez(output + ".npz", **_values(models))


def __getattr__(name):
    if not os.path.exists(os.path.join(HERE, name + ".py")):
        raise AttributeError(name)
    return lambda output: _run(name, output)
