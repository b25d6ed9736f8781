"""A step of a Keras program: when a slice begins, its gradients, and what the rank answers."""

import math
from functools import partial

import keras
import numpy as np

from ..run import DIFFERENCE, SKIP, STEP, VOID, Error
from ..stream import Stream
from . import backends, rounded, tape
from .block import Block
from .state import State, scales
from .trained import Trained

IDLE_MOST = 100  # batches in a row without gradients
ROWS = (
    "on TensorFlow, %s of a program alone squares an embedding's gradient for each time that the "
    "batch uses a row, and adds up the squares; here, as on Keras' other backends, the row's "
    "gradients are added up over the batch and then squared, so its steps are larger or smaller"
)


class Steps:
    """weights: all weights in the block; optimizers: those that step now (trained.py)."""

    def __init__(self, run, model, optimizers, weights, norms, sums):
        self.run, self.model, self.sums = run, model, sums
        self.block = Block(run, weights, norms)
        self.trained = Trained(model, self.block, optimizers)
        self.kind = None  # what the rank answered last; None: nothing yet
        self.apart = False  # ranks' statistics differ since the last step
        self.stream = Stream(run, self)
        self.begun = None  # the slice that has begun, until its gradients are sent
        self.sent = None  # the same slice from then on, until the next one begins
        self.idle = 0  # slices in a row without gradients
        self.training = False
        self.seen = 0  # samples of this rank in the epoch
        self.drained = False  # the epoch has no more slices
        self.told_weight = None  # the weight that evenstep.weight() gave this batch
        self.tells = False  # the loss is known
        self.told_changed = False  # the user has been told that the program changes gradients
        # the user has been told how the optimizer takes an embedding's gradients
        self.told_rows = False
        self.answer = STEP
        self._moved = rounded.mover()
        self.state = State(run, self)
        run.save = self.state.save
        run.before_give = lambda: self.block.gather(self.trained.variables)
        run.ending.before_leave = self.stream.close
        self.trained.choose(optimizers)

    def start(self):
        self.hand_over_all()
        self.block.gather_statistics()
        self.run.start()
        self.block.scatter(self.block.weights)
        self.block.scatter_statistics()
        self.state.reload()

    # ---- block and variables

    def hand_over_all(self):
        """Copies all weights to the block, frozen ones included: the program may have changed
        them."""
        self.block.gather(self.block.weights)

    def hand_over(self):
        if self.apart and self.stream.is_ending():
            self.mean_over_ranks([])
        self.block.gather(self.trained.variables)
        self.block.gather_statistics()

    def take_over(self):
        self.block.scatter(self.trained.of_rank())
        self.block.scatter_statistics()

    # ---- the step

    def begin_slice(self, piece):
        held = self.run.holds()
        if held:
            self.hand_over()
        if not self.run.begin(piece):
            return False
        if held:
            self.take_over()
        self.block.step_begins()
        if self.kind in (None, VOID, DIFFERENCE):
            self.block.remember(self.trained.variables)
        self.begun, self.sent = piece, None
        return True

    def next(self):
        """The slice of this step. The callback and the data both ask; the first call begins it.
        None: the epoch has no more slices."""
        if self.drained:
            return None
        piece = self.begun or self.stream.begin()
        self.drained = piece is None
        return piece

    def _exchange_in_graph(self, *args):
        """Keeps the exception, since TensorFlow raises one of its own in its place."""
        try:
            return self.exchange(*args)
        except Error as e:
            self.run.ending.within = e
            raise

    def exchange(self, optimizer, variables, ranges, flat, loss, weight):
        """Exchanges this rank's gradients of these variables, which are the given ranges of the
        block. weight: their weight in the mean; NaN: their samples. Returns the gradients that this
        optimizer steps with, and whether it steps at all."""
        piece = self.begun or self.sent
        if piece is None:
            raise Error("optimizer.apply() outside fit(): only fit() takes part in a run")
        if self._moved:
            flat = self._moved(flat, backends.sizes(variables))
        further = self.begun is None  # by another optimizer, or in another step of this one
        # the difference of the whole step is sent at its end
        if further and self.kind == DIFFERENCE:
            return np.array(flat, np.float32), True
        if further:
            self.run.again()
        told, self.told_weight = self.told_weight, None
        weight = float(weight) if told is None else told
        if len(self.trained.optimizers) > 1:
            self.block.grads[:] = 0  # clears what the other optimizer has left
        self.block.put(ranges, flat if piece.count and weight != 0 else None)
        if piece.count and not math.isnan(weight):
            self.run.weight(weight)
        rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
        self.kind = self.run.gradients(piece.count, self._loss(piece, loss, optimizer), rate)
        self.answer = self.kind if not further or self.kind != STEP else self.answer
        self.trained.served |= self.kind == SKIP and piece.count > 0
        if not further:
            self.seen += piece.count
        self.begun, self.sent, self.idle = None, piece, 0
        # TensorFlow keeps the array that it gets, and the rank writes to the block: so these are
        # copies
        if self.kind != STEP:
            return np.array(flat, np.float32), self.kind != VOID
        return self.block.summed(ranges), True

    def _loss(self, piece, loss, optimizer):
        """The loss for the rank. To the rank NaN means an unknown loss, so a known loss that is NaN
        is sent as infinite."""
        loss = float(loss) / max(piece.count, 1) if self.sums else float(loss)
        # a loss scaler answers NaN with a smaller scale
        known = self.tells and not scales(optimizer)
        return math.inf if math.isnan(loss) and known and piece.count else loss

    def shadow(self, optimizer, program):
        """Makes the optimizer's apply() exchange first."""
        apply = optimizer.apply

        def apply_summed(grads, trainable_variables=None):
            variables = self.trained.stepped_by(optimizer, trainable_variables)
            self._look_at(optimizer, grads)
            exchange = partial(
                self._exchange_in_graph, optimizer, variables, self.block.ranges(variables)
            )
            self.tells = program.loss is not None
            if not optimizer.built:  # nothing can be built in a graph's branch
                with keras.name_scope(optimizer.name):
                    optimizer.build(variables)

            def step(summed):
                apply([None if g is None else s for g, s in zip(grads, summed)],
                      trainable_variables)

            backends.chosen()(exchange, step, grads, variables, program.loss, program.weight)

        object.__setattr__(optimizer, "apply", apply_summed)

    def _look_at(self, optimizer, grads):
        """Tells the user, once each, what the program and the optimizer do to the gradients."""
        told = not self.told_changed and self.run.workers > 1 and tape.what_to_tell(grads)
        if told:
            self.told_changed = True
            self.run.say(told)
        linear = isinstance(optimizer, (keras.optimizers.SGD, keras.optimizers.Lion))
        if not linear and not self.told_rows and any(map(backends.has_rows, grads)):
            self.told_rows = True
            self.run.say(ROWS % type(optimizer).__name__)

    def mean_over_ranks(self, figures):
        """Replaces this rank's figures of the epoch by the mean over the samples of all ranks, so
        that all have the same numbers. It does so for moving statistics too, which differ after the
        ranks' last steps. Call it before the epoch's end. It works only where gradients are summed;
        elsewhere the figures stay this rank's."""
        grads = self.block.grads
        each, means = len(grads) - 1, []
        self.apart = False
        if self.kind not in (STEP, VOID) or self.run.workers == 1 or each == 0:
            return figures
        for first in range(0, len(figures) or bool(self.block.norms), each):
            part = figures[first : first + each]
            self.block.gather_statistics()
            self.run.again()
            self.run.weight(self.seen)
            grads[:] = 0
            grads[0], grads[1 : 1 + len(part)] = 1, part
            self.run.gradients()
            means += [float(v) for v in grads[1 : 1 + len(part)] / grads[0]]
            grads[:] = 0
            self.block.scatter_statistics()
        return means

    def untouched(self):
        """The slice that has begun, until the optimizer steps on it."""
        return self.begun

    def _count_idle(self):
        self.idle += 1
        never = self.kind is None and self.begun.epoch_last
        if not self.run.over and (never or self.idle >= IDLE_MOST):
            raise Error(
                "no gradients of %d batches in a row reached optimizer.apply(): each step is to "
                "have one, with the optimizer that compile() was given, or with optimizers that "
                "are attributes of the model" % self.idle
            )

    def finish_step(self):
        """Runs after the train function. It sends the optimizer's difference if the rank wants it,
        and takes over the changes of a server and of other ranks' statistics."""
        if self.begun is not None:
            self._count_idle()
            self.run.abort()
            self.begun = None
        answer, self.answer = self.answer, STEP
        if answer == DIFFERENCE:
            self.block.put_differences(self.trained.variables)
            self.run.difference()
        if answer in (SKIP, DIFFERENCE):
            self.block.scatter(self.trained.of_rank())
        if self.block.merge_statistics():
            self.apart = True
