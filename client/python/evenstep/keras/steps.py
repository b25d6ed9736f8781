"""A step of a Keras program: values into the block and out of it, and what the rank answers.

The block has all weights that a fit() may train, those of frozen layers too, since a later fit()
may unfreeze them; their gradients are zero. What trains now are ranges of it:

    block   | base: frozen      | head: trains |      ranges  [(first, floats), …]
    flat                        | head         |      what the train function gives and gets
"""

import math
import pickle
from functools import partial

import keras
import numpy as np

from ..run import DIFFERENCE, SKIP, STEP, VOID, Error
from ..stream import Stream
from . import backends, counters, tape
from .backends import sizes

IDLE_MOST = 100  # batches in a row without gradients
ROWS = (
    "on TensorFlow, %s of a program alone squares an embedding's gradient for each time that the "
    "batch uses a row, and adds up the squares; here, as on Keras' other backends, the row's "
    "gradients are added up over the batch and then squared, so its steps are larger or smaller"
)


def _numpy(variable):
    return keras.ops.convert_to_numpy(variable).astype(np.float32, copy=False)


class Steps:
    """weights: all that the block has; optimizers: those that step now, each its own variables
    if there are several."""

    def __init__(self, run, model, optimizers, weights, norms, sums):
        self.run, self.model, self.optimizers, self.sums = run, model, optimizers, sums
        self.weights, self.norms = weights, norms
        ends = np.cumsum([0, *sizes(weights)])
        self.first = {id(v): int(at) for v, at in zip(weights, ends)}
        self.variables = []  # what trains
        self.stepped = set()  # the ids of those that an optimizer has stepped
        self.rule = None  # the optimizer as the rank knows it
        self.served = False  # a server makes the steps by that
        self.params = np.frombuffer(run.params, np.float32)
        self.grads = np.frombuffer(run.grads, np.float32)
        self.stats = np.frombuffer(run.stats, np.float32)
        self.kind = None  # what the rank answered last; None: nothing yet
        self.before = np.zeros_like(self.params)  # parameters before a step that sends differences
        self.merged = None  # statistics as they were when the step began
        self.apart = False  # ranks' statistics differ by what the last step gave
        self.stream = Stream(run, self)
        self.begun = None  # the slice begun, until its gradients went out
        self.sent = None  # the same, from then on to the next one
        self.idle = 0  # slices in a row without gradients
        self.training = False
        self.callbacks, self.counters = [], None  # of fit(); what a state has of theirs
        self.scheduled = False  # the callbacks have begun the epoch, and it is not over
        self.rates = -1, ()  # of the optimizers in this epoch of the run, as a state has them
        self.seen = 0  # samples of this rank in the epoch
        self.drained = False  # the epoch has no more slices
        self.told_weight = None  # what evenstep.weight() said of this batch
        self.tells = False  # the loss is known
        self.told_changed = False  # that the program changes gradients
        self.told_rows = False  # how the optimizer takes an embedding's
        self.answer = STEP
        self.histories = []  # of the calls of fit() that have ended
        self.recalled = pickle.loads(run.state)["histories"] if run.state else []
        run.save, run.before_give = self.save, self._hand_over_weights
        run.before_leave = self.stream.close
        self.choose(optimizers)

    def start(self):
        self.hand_over_all()
        self._gather_statistics()
        self.run.start()
        self._scatter(self.weights)
        self._scatter_statistics()
        self.reload()

    def reload(self):
        """What the program gave before, into the optimizer of now."""
        if self.run.state:
            self.load(pickle.loads(self.run.state))

    # ---- what trains

    def choose(self, optimizers, rule=None):
        """The weights that are not frozen train from now on, by these optimizers; rule: as the rank
        knows them."""
        for v in self.model.trainable_variables:
            if id(v) not in self.first:
                raise Error(
                    "the weights '%s' train now and were not in the first fit(): a model has all "
                    "its layers by then, and prepare(model, unfreezes=False) is for one that keeps "
                    "frozen what is frozen" % v.path
                )
        self._check_rule(rule)
        self.optimizers, self.rule = optimizers, self.rule or rule
        self.variables = list(self.model.trainable_variables)
        self.grads[:] = 0

    def _ranges(self, variables):
        """Where they stand in the block: (first, floats) of each run of neighbours."""
        ranges = []
        for v, n in zip(variables, sizes(variables)):
            if ranges and sum(ranges[-1]) == self.first[id(v)]:
                ranges[-1] = ranges[-1][0], ranges[-1][1] + n
            else:
                ranges.append((self.first[id(v)], n))
        return ranges

    def _check_rule(self, rule):
        """A server that makes the steps knows the first optimizer; of another one it needs no more
        than its rate, which comes with each step."""
        if not self.served or not self.rule:
            return
        if any(rule[key] != self.rule[key] for key in ("server", "momentum", "nesterov")):
            raise Error(
                "under this strategy the server makes the steps by the rule of the first fit()'s "
                "optimizer, %s with momentum %g: compile() again with the same but for its rate, "
                "or take the strategy sync" % (self.rule["name"], self.rule["momentum"])
            )

    # ---- block and variables

    def hand_over_all(self):
        """The frozen ones too: the program may have changed them before."""
        _gather(self.params, self.weights)

    def hand_over(self):
        if self.apart and self.stream.is_ending():
            self.mean_over_ranks([])
        self._hand_over_weights()
        self._gather_statistics()

    def _hand_over_weights(self):
        for v, n in zip(self.variables, sizes(self.variables)):
            self.params[self.first[id(v)] :][:n] = _numpy(v).reshape(-1)

    def _gather_statistics(self):
        _gather(self.stats, [v for _, v, _ in self.norms])

    def _scatter(self, variables):
        for v, n in zip(variables, sizes(variables)):
            v.assign(self.params[self.first[id(v)] :][:n].reshape(v.shape).copy())

    def _scatter_statistics(self):
        at = 0
        for _, v, _ in self.norms:
            n = int(np.prod(v.shape))
            v.assign(self.stats[at : at + n].reshape(v.shape).copy())
            at += n

    def _taken(self):
        """What the rank's values go into. Weights that no optimizer steps are the program's own (it
        assigns a moving average to them), and a server has them as they began."""
        return [v for v in self.variables if not self.served or id(v) in self.stepped]

    def take_over(self):
        self._scatter(self._taken())
        self._scatter_statistics()

    # ---- the step

    def begin_slice(self, piece):
        held = self.run.holds()
        if held:
            self.hand_over()
        if not self.run.begin(piece):
            return False
        if held:
            self.take_over()
        if self.norms:
            self._gather_statistics()
            self.merged = self.stats.copy()
        if self.kind in (None, VOID, DIFFERENCE):
            for v, n in zip(self.variables, sizes(self.variables)):
                self.before[self.first[id(v)] :][:n] = _numpy(v).reshape(-1)
        self.begun, self.sent = piece, None
        return True

    def next(self):
        """The slice of this step, begun once, whoever asks first: callback or data. None, until the
        next epoch begins: this one has no more."""
        if self.drained:
            return None
        piece = self.begun or self.stream.begin()
        self.drained = piece is None
        return piece

    def _exchange_in_graph(self, *args):
        """TensorFlow makes an exception of its own of what is raised there."""
        try:
            return self.exchange(*args)
        except Error as e:
            self.run.within = e
            raise

    def exchange(self, optimizer, variables, ranges, flat, loss, weight):
        """Gradients of this rank, for these variables, which are those ranges of the block, and
        what they count in the mean if not their samples (else NaN); returns what this optimizer
        steps with, and whether it steps at all."""
        piece = self.begun or self.sent
        if piece is None:
            raise Error("optimizer.apply() outside fit(): only fit() takes part in a run")
        further = self.begun is None  # of another optimizer, or another step of this one
        if further and self.kind == DIFFERENCE:  # that of the whole step is sent, when it is over
            return np.array(flat, np.float32), True
        if further:
            self.run.again()
        told, self.told_weight = self.told_weight, None
        weight = float(weight) if told is None else told
        self._put(ranges, flat if piece.count and weight != 0 else None)
        if piece.count and not math.isnan(weight):
            self.run.weight(weight)
        rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
        self.kind = self.run.gradients(piece.count, self._loss(piece, loss, optimizer), rate)
        self.answer = self.kind if not further or self.kind != STEP else self.answer
        self.served |= self.kind == SKIP and piece.count > 0
        if not further:
            self.seen += piece.count
        self.begun, self.sent, self.idle = None, piece, 0
        # TensorFlow keeps the array that it is given, and the rank writes to the block
        if self.kind != STEP:
            return np.array(flat, np.float32), self.kind != VOID
        return np.concatenate([self.grads[first : first + n] for first, n in ranges]), True

    def _put(self, ranges, flat):
        """Gradients into the block; None: of no samples."""
        at = 0
        if len(self.optimizers) > 1:
            self.grads[:] = 0  # what the other has left
        for first, n in ranges:
            self.grads[first : first + n] = 0 if flat is None else flat[at : at + n]
            at += n

    def _loss(self, piece, loss, optimizer):
        """As the rank takes it, to which NaN is a loss that nobody knows."""
        loss = float(loss) / max(piece.count, 1) if self.sums else float(loss)
        known = self.tells and not _scales(optimizer)  # there NaN is met by a smaller scale
        return math.inf if math.isnan(loss) and known and piece.count else loss

    def _stepped_by(self, optimizer, variables):
        """The variables of a call of apply(): all that train, or some of them."""
        if variables is None:
            own = optimizer.built or len(self.optimizers) > 1
            variables = optimizer._trainable_variables if own else self.variables
        if not {id(v) for v in variables} <= {id(v) for v in self.variables}:
            raise Error(
                "the optimizer steps other variables than the model's: freeze and unfreeze layers "
                "before compile(), and keep each optimizer of a train_step of your own as an "
                "attribute of the model"
            )
        self.stepped |= {id(v) for v in variables}
        return list(variables)

    def shadow(self, optimizer, program):
        """Its apply() exchanges first."""
        apply = optimizer.apply

        def apply_summed(grads, trainable_variables=None):
            variables = self._stepped_by(optimizer, trainable_variables)
            self._look_at(optimizer, grads)
            exchange = partial(
                self._exchange_in_graph, optimizer, variables, self._ranges(variables)
            )
            self.tells = program.loss is not None
            if not optimizer.built:  # in a graph's branch nothing can be
                with keras.name_scope(optimizer.name):
                    optimizer.build(variables)

            def step(summed):
                apply([None if g is None else s for g, s in zip(grads, summed)],
                      trainable_variables)

            backends.chosen()(exchange, step, grads, variables, program.loss, program.weight)

        object.__setattr__(optimizer, "apply", apply_summed)

    def _look_at(self, optimizer, grads):
        """Once it is told what the program does to them, and what the optimizer would."""
        told = not self.told_changed and self.run.workers > 1 and tape.what_to_tell(grads)
        if told:
            self.told_changed = True
            self.run.say(told)
        linear = isinstance(optimizer, (keras.optimizers.SGD, keras.optimizers.Lion))
        if not linear and not self.told_rows and any(map(backends.has_rows, grads)):
            self.told_rows = True
            self.run.say(ROWS % type(optimizer).__name__)

    def mean_over_ranks(self, figures):
        """What this rank's samples of the epoch gave, as a mean over those of all ranks: the same
        numbers on each of them, and so are moving statistics, which the ranks' last steps have set
        apart. Where gradients are summed only, before the epoch's end; elsewhere the figures stay
        this rank's."""
        each, means = len(self.grads) - 1, []
        self.apart = False
        if self.kind not in (STEP, VOID) or self.run.workers == 1 or each == 0:
            return figures
        for first in range(0, len(figures) or bool(self.norms), each):
            part = figures[first : first + each]
            self._gather_statistics()
            self.run.again()
            self.run.weight(self.seen)
            self.grads[:] = 0
            self.grads[0], self.grads[1 : 1 + len(part)] = 1, part
            self.run.gradients()
            means += [float(v) for v in self.grads[1 : 1 + len(part)] / self.grads[0]]
            self.grads[:] = 0
            self._scatter_statistics()
        return means

    def untouched(self):
        """The slice that has begun, if the optimizer has not stepped on it."""
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
        """After the train function: the difference that the optimizer made, if the rank wants it,
        and what a server or other ranks' statistics change."""
        if self.begun is not None:
            self._count_idle()
            self.run.abort()
            self.begun = None
        answer, self.answer = self.answer, STEP
        if answer == DIFFERENCE:
            for v, n in zip(self.variables, sizes(self.variables)):
                at = slice(self.first[id(v)], self.first[id(v)] + n)
                self.grads[at] = self.before[at] - _numpy(v).reshape(-1)
            self.run.difference()
        if answer in (SKIP, DIFFERENCE):
            self._scatter(self._taken())
        if self.merged is not None:
            self._merge_statistics()

    def _merge_statistics(self):
        """A moving mean m became k m + …; the other ranks' part of m comes after, as k (merged -
        m)."""
        at, merged = 0, self.stats - self.merged
        for layer, v, _ in self.norms:
            n = int(np.prod(v.shape))
            correction = layer.momentum * merged[at : at + n].reshape(v.shape)
            if np.any(correction):
                v.assign(keras.ops.convert_to_numpy(v) + correction)
            at += n
        self.merged, self.apart = None, True

    # ---- state

    def remember(self, history):
        """A call of fit() has ended: a process that passes over it has its figures."""
        self.histories.append({k: [float(v) for v in values if np.ndim(v) == 0]
                               for k, values in history.items()})

    def recall(self):
        """The figures of a call that is passed over."""
        told = self.recalled.pop(0) if self.recalled else {}
        self.histories.append(told)
        return told

    def _others(self):
        """Variables beside the block: seeds, counters."""
        return [v for v in self.model.non_trainable_variables if id(v) not in self.first]

    def save(self):
        return pickle.dumps(
            {
                "optimizers": [self._state_of(o) for o in self.optimizers],
                "variables": [_any(v) for v in self._others()],
                "histories": self.histories,
                "counters": counters.take(self.callbacks),
                "epoch": self.stream.epoch if self.scheduled else -1,
            }
        )

    def _state_of(self, optimizer):
        """(places of what it steps among the weights, values)."""
        steps = [id(v) for v in getattr(optimizer, "_trainable_variables", ())]
        places = [i for i, v in enumerate(self.weights) if id(v) in steps]
        return places, [_any(v) for v in optimizer.variables]

    def load(self, state):
        for optimizer, (places, kept) in zip(self.optimizers, self._kept(state)):
            if not optimizer.built and places:
                optimizer.build([self.weights[i] for i in places])
            _take(optimizer.variables, kept)
        _take(self._others(), state["variables"])
        self.counters = state.get("counters")
        self.rates = state.get("epoch", -1), [_rate(o) for o in self.optimizers]

    def give_counters(self):
        """Callbacks have begun, and count from nothing: a state's counters hold, once."""
        kept, self.counters = self.counters, None
        if kept:
            counters.give(self.callbacks, kept)

    def keep_rates(self, piece):
        """Callbacks begin an epoch once more that goes on here, and a rate that they make of the
        rate before would be made of it twice: in that epoch a state's rates hold."""
        (epoch, rates), self.rates = self.rates, (-1, ())
        if piece is None or piece.epoch != epoch:
            return
        for optimizer, rate in zip(self.optimizers, rates):
            if rate is not None:
                optimizer.learning_rate = rate

    def _kept(self, state):
        """As save() gives them. Older states have one optimizer, of all that trains."""
        if "optimizers" in state:
            return state["optimizers"]
        trains = [id(v) for v in self.variables]
        return [([i for i, v in enumerate(self.weights) if id(v) in trains], state["optimizer"])]


def _take(variables, kept):
    """Values of a state, unless they are of the fit() before."""
    if [tuple(v.shape) for v in variables] == [value.shape for value in kept]:
        for v, value in zip(variables, kept):
            v.assign(value)


def _any(variable):
    return np.asarray(keras.ops.convert_to_numpy(variable))


def _rate(optimizer):
    """None: by a schedule of its own, which goes by its steps."""
    inner = optimizer.inner_optimizer if _scales(optimizer) else optimizer
    if not isinstance(inner._learning_rate, keras.Variable):
        return None
    return float(keras.ops.convert_to_numpy(inner.learning_rate))


def _scales(optimizer):
    return isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


def _gather(block, variables):
    """One after the other."""
    at = 0
    for v, n in zip(variables, sizes(variables)):
        block[at : at + n] = _numpy(v).reshape(-1)
        at += n
