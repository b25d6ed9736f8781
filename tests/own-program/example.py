"""Runs an example of deploy/examples/programs and keeps the parameters that it ends with:

    example.py NAME exact|usual OUTPUT [ARGUMENTS OF THE EXAMPLE …]

`exact` takes out of it what differs between a run alone and one on ranks by its nature: dropout and
augmentation draw numbers, a batch norm has the statistics of the node's own samples. OUTPUT.npz
gets the parameters; where a rank started the program, its number is added to OUTPUT."""

import importlib
import os
import sys

import numpy as np

import evenstep

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/examples/programs")


def make_exact(name):
    if name == "keras_mnist":
        import keras

        keras.layers.Dropout = lambda rate: keras.layers.Identity()
        return
    import torch

    torch.nn.functional.dropout = lambda x, *args, **kwargs: x
    torch.nn.Dropout.forward = lambda self, x: x
    norm = torch.nn.BatchNorm2d
    norm.train = lambda self, mode=True: torch.nn.Module.train(self, False)
    if name == "cifar_resnet":
        cifar = importlib.import_module(name).Cifar
        cifar.augment = property(lambda self: False, lambda self, value: None)


def values_of(model):
    if hasattr(model, "state_dict"):
        named = {k: v.detach().numpy() for k, v in model.state_dict().items()}
    else:
        named = {v.path: np.asarray(v.value) for v in model.trainable_variables}
    return {k.replace("/", "."): v for k, v in named.items() if v.dtype == np.float32}


def main():
    name, how, output = sys.argv[1:4]
    sys.path.insert(0, FOLDER)
    if how == "exact":
        make_exact(name)
    kept = []
    place = importlib.import_module("evenstep.keras") if name == "keras_mnist" else evenstep
    prepare = place.prepare

    def prepare_and_keep(*objects):
        kept.append(objects[0])
        return prepare(*objects)

    place.prepare = prepare_and_keep
    sys.argv = [name, *sys.argv[4:]]
    importlib.import_module(name).main()
    rank = os.environ.get("EVENSTEP_RANK")
    np.savez((output if rank is None else f"{output}-{rank}") + ".npz", **values_of(kept[0]))


main()
