"""Trainers of libraries: Lightning's and transformers' make the loop, the loader and the optimizer
themselves, so `prepare(trainer)` prepares those where the trainer makes them:

    trainer = evenstep.prepare(trainer)

The trainer stays the same object; methods of it are shadowed on the instance. A process that was
started again begins in the epoch that the run is in. Figures of its validation are shown as test_…,
and its other figures are metrics of the job.
"""

import contextlib
import importlib
import math
import re

import evenstep

from ...run import Error, run

KINDS = {  # by package, and the class in it that has the method
    "lightning": "fit",
    "pytorch_lightning": "fit",
    "transformers": "get_train_dataloader",
}


def _package_of(value):
    """The package whose Trainer this is, or None."""
    for kind in type(value).__mro__:
        package = kind.__module__.partition(".")[0]
        if kind.__name__ == "Trainer" and hasattr(value, KINDS.get(package, "")):
            return package
    return None


def take(objects):
    """True if it is one of these trainers, which then takes part in the run."""
    packages = list(map(_package_of, objects))
    if not any(packages):
        return False
    if len(objects) > 1:
        raise Error(
            "prepare() takes a trainer alone, since it makes model, optimizer and loader part of "
            "the run itself: trainer = evenstep.prepare(trainer)"
        )
    trainer, package = objects[0], packages[0]
    if package == "transformers":
        _Transformers(trainer)
    else:
        _Lightning(trainer, package)
    return True


def _log(metrics):
    """Logs those that are numbers, without those about speed."""
    told = {}
    for name, value in metrics.items():
        if not name.endswith(("runtime", "_per_second", "_time")):
            with contextlib.suppress(TypeError, ValueError):
                told[name] = float(value)
    if told:
        evenstep.log(told)


def _log_validation(metrics, prefix):
    named = {name: re.sub("^%s[_/]" % prefix, "test_", name) for name in metrics}
    _log({named[name]: value for name, value in metrics.items() if named[name] != name})


def _log_training(metrics, *prefixes):
    """Logs what neither a validation (these prefixes) nor a row of the run tells."""
    told = ("loss", "epoch", "step", "train_loss", "total_flos", "num_input_tokens_seen")
    _log(
        {
            name: value
            for name, value in metrics.items()
            if name not in told and not re.match("(%s)[_/]" % "|".join(prefixes), name)
        }
    )


def _of_epoch(metrics):
    """Without the names that Lightning adds to a figure of both step and epoch."""
    return {
        name: value
        for name, value in metrics.items()
        if not re.search("_(step|epoch)$", name) or name.rpartition("_")[0] not in metrics
    }


def close_epoch():
    """After the last step: an evaluation then sees averaged parameters."""
    if evenstep._program:
        evenstep._program.stream.close_epoch_if_over()


def _one_of(package, name, **methods):
    """A callback of the package's own class."""
    kind = getattr(importlib.import_module(package), name)
    return type("Evenstep", (kind,), methods)()


class _Transformers:
    def __init__(self, trainer):
        self.trainer, self.weighs = trainer, getattr(trainer, "get_batch_samples", None)
        self.loader, self.scheduler = trainer.get_train_dataloader, trainer.create_scheduler
        trainer.get_train_dataloader = self.get_train_dataloader
        trainer.create_scheduler = self.create_scheduler
        if self.weighs:  # since 4.46; before, a batch weighs what its loss is seen to be a mean of
            trainer.get_batch_samples = self.get_batch_samples
        if hasattr(trainer, "_init_training_state"):
            self.begin, trainer._init_training_state = trainer._init_training_state, self.go_on
        trainer.add_callback(
            _one_of(
                "transformers",
                "TrainerCallback",
                on_epoch_end=lambda *_, **__: close_epoch(),
                on_evaluate=lambda *_, metrics=None, **__: _log_validation(metrics or {}, "eval"),
                on_log=lambda *_, logs=None, **__: _log_training(logs or {}, "eval", "train"),
            )
        )

    def get_train_dataloader(self):
        accelerator = self.trainer.accelerator
        accelerator.prepare = lambda loader: loader  # Accelerate's loader reads a batch ahead
        try:
            plain = self.loader()
        finally:
            del accelerator.prepare
        self.trainer.create_optimizer()
        self.made = evenstep.prepare(self.trainer.model, self.trainer.optimizer, plain)[2]
        self.made.whole = True  # the trainer asks once
        evenstep._program.place.again.leave_out()
        return self.made

    def create_scheduler(self, *args, **kwargs):
        """It is created after the run has started, so its state is loaded here."""
        scheduler = self.scheduler(*args, **kwargs)
        evenstep._program.state.schedules.given.append(scheduler)
        evenstep._program.state.load()
        return scheduler

    def go_on(self, max_steps, per_epoch, epochs, *args):
        began, steps = self.begin(max_steps, per_epoch, epochs, *args)
        if self.trainer.args.max_steps <= 0:
            began = max(began, run().loops.epochs(epochs))
            self.trainer.state.global_step = began * per_epoch + self.made.passed()
        return began, steps

    def get_batch_samples(self, batches, count, device):
        """The loss is a mean over tokens, so a batch weighs its number of tokens. Accumulated
        batches are taken one by one, each after the backward pass of the previous one."""
        if count > 1:
            return _Accumulated(batches, count), None
        samples, tokens = self.weighs(batches, count, device)
        if tokens is not None:
            evenstep.weight(float(tokens))
        return samples, tokens


class _Accumulated:
    def __init__(self, batches, count):
        self.batches, self.count = batches, count

    def __len__(self):
        return self.count

    def __iter__(self):
        for _ in range(self.count):
            batch = next(self.batches, None)
            if batch is None:
                return
            yield batch


def _if_there(remove):
    """Nodes of one host keep the best checkpoint in one folder, so another node may be quicker."""

    def remove_if_there(path):
        with contextlib.suppress(FileNotFoundError):
            remove(path)

    return remove_if_there


class _Lightning:
    def __init__(self, trainer, package):
        self.trainer, self.fit, self.loader = trainer, trainer.fit, None
        trainer.fit = self.fit_prepared
        files = trainer.strategy.checkpoint_io
        files.remove_checkpoint = _if_there(files.remove_checkpoint)
        trainer.callbacks.append(
            _one_of(
                "lightning.pytorch" if package == "lightning" else package,
                "Callback",
                on_train_batch_start=lambda *_: self.open_epoch(),
                on_validation_start=lambda *_: self.validates(),
                on_validation_end=lambda _, trainer, module: self.tell(trainer),
                on_train_epoch_end=lambda _, trainer, module: _log_training(
                    _of_epoch(trainer.callback_metrics), "val", "test"
                ),
            )
        )
        self.epoch_loop = trainer.fit_loop.epoch_loop
        self.run_epoch, self.epoch_loop.run = self.epoch_loop.run, self.run_and_validate
        self.validated = False  # in this epoch

    def fit_prepared(self, model, train_dataloaders=None, *args, datamodule=None, **more):
        if self.trainer.world_size > 1:
            raise Error(
                "the Lightning Trainer would start %d processes, and each node trains one: "
                "Trainer(devices=1)" % self.trainer.world_size
            )
        if hasattr(train_dataloaders, "train_dataloader"):
            datamodule, train_dataloaders = train_dataloaders, None
        source = datamodule or model
        plain = source.train_dataloader
        if train_dataloaders is not None:
            plain = lambda: train_dataloaders  # noqa: E731
        source.train_dataloader = lambda: self.loader or self.prepared(model, plain())
        try:
            return self.fit(model, None, *args, datamodule=datamodule, **more)
        finally:
            self.loader = None
            del source.train_dataloader

    def prepared(self, model, loader):
        schedulers = [config.scheduler for config in self.trainer.lr_scheduler_configs]
        given = model, list(self.trainer.optimizers), schedulers, loader
        self.loader = evenstep.prepare(*given)[3]
        evenstep._program.place.again.leave_out()
        epochs = self.trainer.fit_loop.max_epochs
        if epochs is not None and epochs > 0:
            self.trainer.fit_loop.max_epochs -= run().loops.epochs(epochs)
        if self.loader.passed():  # the epoch in which the run continues has fewer batches
            self.trainer.reload_dataloaders_every_n_epochs = 1
        return self.loader

    def open_epoch(self):
        """Under a server a node has as many batches of an epoch as it is fast, so the epoch ends
        where the loader does and not after len(loader) batches."""
        if evenstep._program.stream.in_step:
            return
        loop, whole = self.trainer.fit_loop, self.trainer.val_check_interval == 1.0
        loop.max_batches = loop._data_fetcher.length = math.inf
        loop._data_fetcher.done = self.epoch_loop.batch_progress.is_last_batch = False
        self.trainer.val_check_batch = math.inf if whole else self.trainer.val_check_batch

    def run_and_validate(self, batches):
        """An epoch. Lightning validates with its last batch, which nobody knows as such under a
        server."""
        self.validated = False
        self.run_epoch(batches)
        if self.validated or self.trainer.val_check_batch != math.inf:
            return
        if self.epoch_loop._should_check_val_epoch():
            self.trainer.validating = True
            self.epoch_loop.val_loop.run()
            self.trainer.training = True

    def validates(self):
        self.validated = True
        close_epoch()

    def tell(self, trainer):
        if not trainer.sanity_checking:
            _log_validation(trainer.callback_metrics, "val")
