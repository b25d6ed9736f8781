"""Batches without a backward pass. A program may pass over one, but not over all of them: its run
would end well, and nothing would be learned."""

import threading

from ...run import Error

IN_A_ROW_MOST = 100


class Idle:
    def __init__(self):
        self.trained = False  # there has been a pass
        self.row = 0  # slices in a row without one, up to the one before
        self._taker = None  # the thread that has the last batch

    def given(self):
        """The loop gets a batch."""
        self._taker = threading.get_ident()

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
            "%s had a backward pass: each is to have one, loss.backward() "
            "(torch.autograd.backward(params, grads) sums what torch.autograd.grad() gives). A "
            "loop that leaves out batches of another size than batch_size leaves out all of them, "
            "since a node has a share of each; one that evaluates the training data stands within "
            "torch.no_grad()"
            % ("none of %d batches" % self.row if self.row > 1 else "no batch of the epoch")
        )

    def check_thread(self):
        """Before each pass that the program begins."""
        if self._taker not in (None, threading.get_ident()):
            raise Error(
                "the thread that makes the backward pass is not the one that takes batches from "
                "the loader: a slice of the job ends where the next batch is taken, so a thread "
                "that reads ahead ends one that was never computed. Loop over the loader itself; "
                "DataLoader(num_workers=…, prefetch_factor=…) reads ahead in the background"
            )
