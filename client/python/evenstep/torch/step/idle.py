"""Batches without a backward pass. A program may pass over one, but not over all of them: its run
would end well, and nothing would be learned. Nor may it take batches ahead of the first pass."""

import threading
import weakref

from ...run import Error
from ..loss.batch import tensor_of

IN_A_ROW_MOST = 100


class Idle:
    def __init__(self):
        self.trained = False  # there has been a pass
        self.row = 0  # slices in a row without one, up to the one before
        self._taker = None  # the thread that has the last batch
        self._first = lambda: None  # a tensor of the first of them, while the program holds it

    def given(self, batch, slices):
        """The loop gets this one, of the last of so many slices that have begun."""
        self._taker = threading.get_ident()
        if slices == 1 and not self.trained and (tensor := tensor_of(batch)) is not None:
            self._first = weakref.ref(tensor)

    def trains(self):
        """A pass begins."""
        self.trained, self.row = True, 0

    def count(self, piece):
        """This slice is over, and had none."""
        self.row += 1
        if self.row >= IN_A_ROW_MOST or (piece.epoch_last and not self.trained):
            self._refuse()

    def epoch_ends(self):
        """A server says after the last slice that it was the last."""
        if self.row and not self.trained:
            self._refuse()

    def _refuse(self):
        raise Error(
            "%s had a backward pass: each is to have one, loss.backward() (what "
            "torch.autograd.grad() gives is summed by torch.autograd.backward(params, grads)); "
            "a loop that evaluates the training data stands within torch.no_grad()"
            % ("none of %d batches" % self.row if self.row > 1 else "no batch of the epoch")
        )

    def check_thread(self):
        """Before each pass that the program begins."""
        if self._taker not in (None, threading.get_ident()):
            raise Error(
                "the thread that makes the backward pass is not the one that takes batches from "
                "the loader: a slice of the job ends where the next batch is taken, so a thread "
                "that reads ahead ends one that was never computed. Loop over the loader itself; "
                "DataLoader(num_workers=…, prefetch_factor=…) reads ahead behind the loop"
            )

    def check_ahead(self, slices):
        """Before the first pass, where so many slices have begun. A loop that passes over its first
        batch does not keep it."""
        if slices > 1 and self._first() is not None:
            raise Error(
                "%d batches were taken from the loader before the backward pass of the first one: "
                "a slice of the job ends where the next batch is taken. Take each batch after the "
                "step of the one before; DataLoader(num_workers=…, prefetch_factor=…) reads ahead "
                "behind the loop" % slices
            )
