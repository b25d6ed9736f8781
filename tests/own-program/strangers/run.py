"""Runs a program of this folder, or `drawn_N` and `keras_drawn_N`, those of seed N (drawn.py,
keras_drawn.py), as a script, and keeps the parameters that it ends with, and its arrays of the name
`kept`: a case of module `strangers.run` is a program's name, with arguments of that test after it
(ARGUMENTS)."""

import os
import runpy
import signal
import sys

import numpy as np

import evenstep
import drawn
import keras_drawn
from evenstep import arrays

HERE = os.path.dirname(os.path.abspath(__file__))
DRAWN = {"drawn": drawn.Drawn, "keras_drawn": keras_drawn.Drawn}
ARGUMENTS = {"mnist_argparse": ["--batch-size", "192"]}


def _floats(tensor):
    import torch

    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.float().numpy()


def _values(models):
    """Parameters and buffers of PyTorch modules, or parameters of a Keras model, by name. Beside
    the states of Keras' seeds, numbers of ten digits, no parameter would differ."""
    values = {}
    for i, model in enumerate(models):
        if hasattr(model, "trainable_variables"):
            from keras import ops

            named = {getattr(v, "path", f"{at}:{v.name}"): ops.convert_to_numpy(v)
                     for at, v in enumerate(model.trainable_variables)}
        else:
            named = {k: _floats(v.detach()) for k, v in model.state_dict().items()}
        values.update({f"{i}.{k}".replace("/", "."): v for k, v in named.items()})
    return values


def _kill_at(step):
    """TEST_KILL=N: the last rank's first process is killed at its Nth step, or with
    TEST_KILL_IN=backward at its Nth backward pass, or with TEST_KILL_IN=exchange at the Nth
    exchange of a Keras program (TEST_REFUSE: it says there that it would fail again), or with
    TEST_KILL_IN=sum at the Nth sum() of one with arrays; TEST_KILL_IN=hook: a hook raises in that
    pass, exit: it exits there with a status of its own, refuse: it says that it would fail again,
    which ends the attempt."""
    if not step or os.environ.get("EVENSTEP_INCARNATION") != "0":
        return
    if evenstep.rank() != evenstep.world_size() - 1:
        return
    if os.environ.get("TEST_KILL_IN") == "sum":
        _kill_at_sum(step)
        return
    if os.environ.get("TEST_KILL_IN") == "exchange":
        _kill_at_exchange(step)
        return
    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    steps, backward = iter(range(1, step + 1)), torch.Tensor.backward
    where = os.environ.get("TEST_KILL_IN")

    def fail(*_):
        raise RuntimeError("a hook of the program's own")

    def kill(loss, *_):
        if next(steps) == step:
            if where == "hook":
                loss.register_hook(fail)
            elif where == "exit":
                os._exit(3)
            elif where == "refuse":
                raise evenstep.Error("it would fail again")
            else:
                os.kill(os.getpid(), signal.SIGKILL)

    def kill_or_pass(*args, **options):
        kill(*args)
        backward(*args, **options)

    if where:
        torch.Tensor.backward = kill_or_pass
    else:
        register_optimizer_step_pre_hook(kill)


def _kill_at_sum(number):
    calls, sum_ = iter(range(1, number + 1)), arrays.Arrays.sum

    def kill_or_sum(*args, **options):
        if next(calls, 0) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return sum_(*args, **options)

    arrays.Arrays.sum = kill_or_sum


def _kill_at_exchange(number):
    from evenstep.keras.steps import Steps

    calls, exchange = iter(range(1, number + 1)), Steps.exchange

    def kill_or_exchange(*args):
        if next(calls) == number:
            if os.environ.get("TEST_REFUSE"):
                raise evenstep.Error("it would fail again")
            os.kill(os.getpid(), signal.SIGKILL)
        return exchange(*args)

    Steps.exchange = kill_or_exchange


def _go_through_again(seconds):
    """TEST_AGAIN: what a process that was started again may take for batches that were made before;
    none: it goes through no batch."""
    if seconds is not None:
        from evenstep.torch.restart import again

        if seconds == "none":
            again.Again._find = again.Again.leave_out
        else:
            again.SECONDS_MOST = float(seconds)


def _file_of(name, output):
    path = os.path.join(HERE, name + ".py")
    kind, _, seed = name.rpartition("_")
    if kind in DRAWN:
        path = f"{output}-{name}.py"
        with open(path, "w") as file:
            file.write(DRAWN[kind](int(seed)).text)
    return path


def _run(name, output):
    models, runs, prepare, join = [], [], evenstep.prepare, arrays.join

    def join_and_keep(*params, **options):
        runs.append(join(*params, **options))
        return runs[-1]

    def keep(objects):
        for o in objects:
            if hasattr(o, "named_modules") or (hasattr(o, "fit") and hasattr(o, "layers")):
                models.append(o)
            elif isinstance(o, (list, tuple, dict)):
                keep(o.values() if isinstance(o, dict) else o)

    def prepare_and_keep(*objects, **options):
        keep(objects)
        return prepare(*objects, **options)

    _kill_at(int(os.environ.get("TEST_KILL", 0)))
    _go_through_again(os.environ.get("TEST_AGAIN"))
    evenstep.prepare, arrays.join = prepare_and_keep, join_and_keep
    sys.argv = [name + ".py", *ARGUMENTS.get(name, [])]
    ended = runpy.run_path(_file_of(name, output), run_name="__main__")
    values = _values(models or [ended["model"] for _ in "1" if "model" in ended])
    values.update((name, a) for run in runs for name, a in arrays._leaves(run.params, run.params))
    values.update(ended.get("kept", {}))
    np.savez(output + ".npz", **values)


def __getattr__(name):
    if not (name.rpartition("_")[0] in DRAWN or os.path.exists(os.path.join(HERE, name + ".py"))):
        raise AttributeError(name)
    return lambda output: _run(name, output)
