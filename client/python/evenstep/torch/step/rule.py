"""The optimizers as the rank knows them, and a server that makes their steps.

A rank is told of plain SGD what a server needs to make the same update: one rate, momentum and
decay. The rate comes again with each step. Anything else that the program asks of its optimizer has
no effect there, and the program is told so.
"""

import math

import torch

from ...run import Error

LOOKS_MOST = 8  # steps in which a server's program is looked at for changes of gradients


def _moves_momentum(scheduler):
    """OneCycleLR and CyclicLR do, unless told not to; it may be one of several."""
    parts = getattr(scheduler, "_schedulers", ())
    return getattr(scheduler, "cycle_momentum", False) or any(map(_moves_momentum, parts))


def describe(optimizers, schedulers=()):
    """A server can make the same update for plain SGD: one rate, momentum and decay."""
    if not optimizers:
        return {"name": "", "server": 0}
    kind, groups = optimizers[0], [g for o in optimizers for g in o.param_groups]
    told = {"name": type(kind).__name__, "learning_rate": float(groups[0]["lr"])}

    def one(key, default=0.0, where=lambda value: True):
        values = {float(g.get(key, default)) for g in groups if where(g.get(key, default))}
        return len(values) <= 1

    told["server"] = int(
        len(optimizers) == 1
        and not any("max_momentum" in g for g in groups)  # a OneCycleLR of the program's own
        and type(kind) is torch.optim.SGD
        and one("lr")
        and one("momentum")
        and one("nesterov")
        and one("weight_decay", where=bool)
        and not any(g.get("dampening") or g.get("maximize") for g in groups)
        and not any(map(_moves_momentum, schedulers))
    )
    told["momentum"] = float(groups[0].get("momentum", 0.0))
    told["nesterov"] = int(bool(groups[0].get("nesterov", False)))
    told["weight_decay"] = max(float(g.get("weight_decay", 0.0)) for g in groups)
    return told


def differs(optimizers, rule):
    """What of the optimizers a server does not do that was told this rule and is told the first
    group's rate in each step; None: nothing."""
    groups = [g for o in optimizers for g in o.param_groups]
    rate, momentum, decay = groups[0]["lr"], rule["momentum"], rule["weight_decay"]
    for g in groups:
        if g["lr"] != rate:
            return "a group's rate of %g beside %g" % (g["lr"], rate)
        if g.get("momentum", 0.0) != momentum:
            return "a momentum of %g in place of %g" % (g["momentum"], momentum)
        if g.get("weight_decay", 0.0) not in (0, decay):
            return "a decay of %g in place of %g" % (g["weight_decay"], decay)
    return None


class Served:
    """A server makes the steps of plain SGD by `rule`, which it was told. What else the program
    asks for has no effect, and the program is told so, once for each kind."""

    def __init__(self, run, rule):
        self.run, self.rule = run, rule
        self._told = set()
        self._found = ()  # (parameter, gradient, its version) as a pass has left them

    def made_step(self, optimizers, slots, piece):
        """A schedule or a new group may ask of the server what it does not do, and so may what
        stands between the pass and the step."""
        if "rule" not in self._told and (what := differs(optimizers, self.rule)):
            self._say("rule", what)
        if "gradients" not in self._told and piece.number < LOOKS_MOST:
            found = [(slot.tensor, slot.tensor.grad) for slot in slots]
            self._found = [(p, grad, grad._version) for p, grad in found if grad is not None]

    def before_step(self):
        found, self._found = self._found, ()
        if any(p.grad is not grad or grad._version != version for p, grad, version in found):
            self._say("gradients", "a change of the gradients after backward() (clipping)")

    def _say(self, kind, what):
        self._told.add(kind)
        self.run.say(
            "under this strategy the server makes the steps of SGD, by one rate and by what "
            "prepare() found: %s has no effect" % what
        )


class Optimizers:
    """Those that step the model."""

    def __init__(self, run, optimizers):
        self.all = optimizers
        self.server = Served(run, describe(optimizers))
        self.served = False  # a server makes the steps, by the rule of the first optimizer
        self.made = lambda: None  # one that the program has made, and not stepped yet
        self.on_adopted = lambda optimizers: None

    def take(self, optimizers):
        """Those of a second phase, or with one that the program has made. A server that makes the
        steps knows the first one's rule; of another it needs no more than its rate."""
        rule = describe(optimizers)
        alike = all(
            rule.get(key) == self.server.rule.get(key)
            for key in ("server", "momentum", "nesterov", "weight_decay")
        )
        if self.served and not alike:
            raise Error(
                "under this strategy the server makes the steps by the rule of the first "
                "optimizer, %s: take the same but for its rate in the second phase, or the "
                "strategy sync" % self.server.rule["name"]
            )
        self.all = optimizers

    def made_by_server(self, slots, piece):
        """It has made the step of this slice."""
        self.server.made_step(self.all, slots, piece)

    def rate(self):
        """Which the rank is told with gradients."""
        first = self.made() or next(iter(self.all), None)
        return float(first.param_groups[0]["lr"]) if first else math.nan
