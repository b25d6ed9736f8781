"""The weights that train, which are those not frozen, and the optimizers that step them."""

from ..run import Error
from .module import path_of


class Trained:
    def __init__(self, model, block, optimizers):
        self.model, self.block = model, block
        # the optimizers that step now; if several, each steps its own variables
        self.optimizers = optimizers
        self.rule = None  # the optimizer as the rank knows it
        self.served = False  # a server makes the steps by that rule
        self.variables = []
        self._stepped = set()  # ids of the variables that an optimizer has stepped

    def choose(self, optimizers, rule=None):
        """From now on these optimizers train the weights that are not frozen. rule: the optimizer
        as the rank knows it."""
        for v in self.model.trainable_variables:
            if not self.block.has(v):
                raise Error(
                    "the weights '%s' train now and were not in the first fit(): a model has all "
                    "its layers by then, and prepare(model, unfreezes=False) is for one that keeps "
                    "frozen what is frozen" % path_of(v)
                )
        self._check_rule(rule)
        self.optimizers, self.rule = optimizers, self.rule or rule
        self.variables = list(self.model.trainable_variables)
        self.block.grads[:] = 0

    def _check_rule(self, rule):
        """Refuses an optimizer with another rule where a server makes the steps. The server knows
        the first optimizer, and only the rate comes with each step."""
        if not self.served or not self.rule:
            return
        if any(rule[key] != self.rule[key] for key in ("server", "momentum", "nesterov")):
            raise Error(
                "under this strategy the server makes the steps by the rule of the first fit()'s "
                "optimizer, %s with momentum %g: compile() again with the same but for its rate, "
                "or take the strategy sync" % (self.rule["name"], self.rule["momentum"])
            )

    def of_rank(self):
        """The variables that get the rank's values. Weights that no optimizer steps belong to the
        program, which may assign a moving average to them; a server has only their initial
        values."""
        return [v for v in self.variables if not self.served or id(v) in self._stepped]

    def stepped_by(self, optimizer, variables):
        """The variables that a call of apply() steps: all that train, or some of them."""
        if variables is None:
            own = optimizer.built or len(self.optimizers) > 1
            variables = optimizer._trainable_variables if own else self.variables
        if not {id(v) for v in variables} <= {id(v) for v in self.variables}:
            raise Error(
                "the optimizer steps other variables than the model's: freeze and unfreeze layers "
                "before compile(), and keep each optimizer of a train_step of your own as an "
                "attribute of the model"
            )
        self._stepped |= {id(v) for v in variables}
        return list(variables)
