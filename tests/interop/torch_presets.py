#!/usr/bin/env python3
"""Evenstep against PyTorch, both ways. Not in `make check`, as PyTorch is large:

    deploy/setup bench; run/venv/bin/python tests/interop/torch_presets.py [PRESET …]

For every preset: the artifact of a job loads into torch.nn modules by its names (strictly) and
gives the same outputs; parameters that PyTorch drew give the same outputs here. Then training
itself: from the same start, the steps of torch.optim and ours (SGD with Nesterov's momentum and
weight decay, Adam, AdamW; dropout left out) end at the same parameters and running statistics."""
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import plain  # noqa: E402
import worker  # noqa: E402


class Join(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, *xs):
        return sum(xs[1:], xs[0]) if self.kind == "add" else torch.cat(xs, 1)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def module(l, shape):
    """The torch.nn module of a layer whose first input has this shape (without samples)."""
    t = l["type"]
    if t == "conv2d":
        return nn.Conv2d(shape[0], l["filters"], tuple(l["kernel"]), tuple(l["stride"]),
                         tuple(l["padding"]), bias=l["bias"])
    if t == "dense":
        body = nn.Linear(int(np.prod(shape)), l["units"], bias=l["bias"])
        return body
    if t == "batch_norm":
        return (nn.BatchNorm2d if len(shape) == 3 else nn.BatchNorm1d)(
            shape[0], eps=l["eps"], momentum=l["momentum"])
    return {
        "max_pool": lambda: nn.MaxPool2d(tuple(l["size"]), tuple(l["stride"]), tuple(l["padding"])),
        "average_pool": lambda: nn.AvgPool2d(tuple(l["size"]), tuple(l["stride"]),
                                             tuple(l["padding"])), "global_average_pool": Mean,
        "relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "flatten": nn.Flatten,
        "leaky_relu": lambda: nn.LeakyReLU(l["slope"]), "dropout": lambda: nn.Dropout(l["rate"]),
        "lrn": lambda: nn.LocalResponseNorm(l["window"], l["alpha"], l["beta"], l["k"]),
        "add": lambda: Join("add"), "concat": lambda: Join("concat"),
    }[t]()


class Net(nn.Module):
    """The network of an artifact's metadata; its modules have the layers' names, so its state_dict
    has the artifact's."""

    def __init__(self, network):
        super().__init__()
        self.layers = network["layers"]
        h, *rest = network["input"]
        shape = (rest[1], h, rest[0]) if rest else (h,)
        values, last = {"input": torch.zeros(2, *shape)}, "input"
        for l in self.layers:
            inputs = [values[i] for i in l.get("inputs", [last])]
            m = module(l, tuple(inputs[0].shape[1:]))
            self.place(l["name"], m)
            values[l["name"]] = self.apply_one(l, m, inputs)
            last = l["name"]

    def place(self, name, m):
        at = self
        *path, leaf = name.split(".")
        for part in path:
            if part not in at._modules:
                at.add_module(part, nn.Module())
            at = at._modules[part]
        at.add_module(leaf, m)

    @staticmethod
    def apply_one(l, m, inputs):
        return m(inputs[0].flatten(1)) if l["type"] == "dense" else m(*inputs)

    def forward(self, x):
        values, last = {"input": x}, "input"
        for l in self.layers:
            values[l["name"]] = self.apply_one(l, self.get_submodule(l["name"]),
                                               [values[i] for i in l.get("inputs", [last])])
            last = l["name"]
        return values[last]

    def take(self, tensors):
        missing, unexpected = self.load_state_dict({k: torch.tensor(v) for k, v in tensors.items()},
                                                   strict=False)
        assert not unexpected and all(k.endswith("num_batches_tracked") for k in missing), (
            missing, unexpected)
        return self

    def give(self):
        return {k: v.detach().numpy().copy() for k, v in self.state_dict().items()
                if not k.endswith("num_batches_tracked")}


def tensor(x):
    return torch.tensor(x.transpose(0, 3, 1, 2) if x.ndim == 4 else x)


def outputs_of(net, x):
    net.eval()
    with torch.no_grad():
        return torch.cat([net(part) for part in tensor(x).split(8)]).numpy()


OPTIMIZERS = {
    "nesterov": ({"type": "sgd", "learning_rate": 0.02, "momentum": 0.9, "nesterov": True,
                  "weight_decay": 0.01},
                 lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True,
                                           weight_decay=0.01)),
    "adam": ({"type": "adam", "learning_rate": 0.002, "weight_decay": 0.01, "eps": 1e-3},
             lambda p: torch.optim.Adam(p, lr=0.002, eps=1e-3, weight_decay=0.01)),
    "adamw": ({"type": "adamw", "learning_rate": 0.002, "weight_decay": 0.05, "eps": 1e-3},
              lambda p: torch.optim.AdamW(p, lr=0.002, eps=1e-3, weight_decay=0.05)),
}


def train_there(net, optimizer, x, y, steps):
    net.train()
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(tensor(x)), torch.tensor(y)).backward()
        optimizer.step()


def check_outputs(preset, folder, data):
    artifact = worker.train(folder, "first", worker.job(preset, 8))
    meta, tensors = plain.load(artifact)
    network, x = json.loads(meta["network"]), plain.normalise(data[2], meta)
    there = worker.close(outputs_of(Net(network).take(tensors), x),
                         worker.outputs(folder, artifact)[1])
    net = Net(network).take(worker.redrawn(tensors, 9))
    plain.save(folder / "torch.safetensors", net.give())
    back = worker.close(outputs_of(net, x),
                        worker.outputs(folder, folder / "torch.safetensors", spec="first")[1])
    print(f"{preset:12} outputs: from here to PyTorch {there:.1e}, from PyTorch to here {back:.1e}")
    return network, meta


# How far apart the parameters may be after so many steps, as a share of their way: later a ReLU's
# input near zero may fall to either side
BOUNDS = {1: 1e-2, 3: 1e-1}


def check_training(preset, folder, data, network, meta):
    """Whole batches, so that the order of samples is of no matter. Adam has a large eps: with 1e-8
    its step is the sign of the smallest gradients, which rounding decides."""
    x, y = plain.normalise(data[0], meta), data[1]
    for name, (ours, theirs) in OPTIMIZERS.items():
        net = Net(network)
        plain.save(folder / "start.safetensors", net.give())
        start = plain.load(folder / "start.safetensors")[1]
        shares = []
        for steps, bound in BOUNDS.items():
            job = worker.job(preset, len(y), init="start.safetensors", epochs=steps, optimizer=ours)
            if "crop" in meta:  # windows would be random
                job["data"] = {**job["data"], "path": "cropped"}
                job["augment"] = {}
            trained = plain.load(worker.train(folder, f"{name}-{steps}", job))[1]
            net.take(start)
            train_there(net, theirs(net.parameters()), x, y, steps)
            given = net.give()
            moved = np.concatenate([(given[k] - start[k]).ravel() for k in given])
            apart = np.concatenate([(given[k] - trained[k]).ravel() for k in given])
            shares.append(float(np.linalg.norm(apart) / np.linalg.norm(moved)))
            assert shares[-1] < bound, (
                f"{preset}, {name}: after {steps} steps the parameters are {shares[-1]:.1e} of "
                "their way apart")
        print(
            f"{preset:12} {name}: apart by {shares[0]:.1e} of the way after 1 step, by "
            f"{shares[1]:.1e} after 3")


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    for preset in sys.argv[1:] or worker.PRESETS:
        with tempfile.TemporaryDirectory(prefix="evenstep-torch-") as name:
            folder = pathlib.Path(name)
            data = worker.put_data(folder / "data", worker.PRESETS[preset], 16, 12)
            if preset == "tf-cifar":
                (folder / "cropped").mkdir()
                for part in ("", "test_"):
                    np.save(folder / "cropped" / f"{part}x.npy",
                            np.load(folder / "data" / f"{part}x.npy")[:, 4:28, 4:28])
                    np.save(folder / "cropped" / f"{part}y.npy",
                            np.load(folder / "data" / f"{part}y.npy"))
            check_training(preset, folder, data, *check_outputs(preset, folder, data))
    print("everything agrees")


if __name__ == "__main__":
    main()
