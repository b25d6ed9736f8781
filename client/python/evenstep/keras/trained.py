"""What trains: the weights that are not frozen, and the optimizers that step them."""

from ..run import Error


class Trained:
    def __init__(self, model, block, optimizers):
        self.model, self.block = model, block
        self.optimizers = optimizers  # those that step now, each its own variables if several
        self.rule = None  # the optimizer as the rank knows it
        self.served = False  # a server makes the steps by that
        self.variables = []
        self._stepped = set()  # the ids of those that an optimizer has stepped

    def choose(self, optimizers, rule=None):
        """The weights that are not frozen train from now on, by these optimizers; rule: as the rank
        knows them."""
        for v in self.model.trainable_variables:
            if not self.block.has(v):
                raise Error(
                    "the weights '%s' train now and were not in the first fit(): a model has all "
                    "its layers by then, and prepare(model, unfreezes=False) is for one that keeps "
                    "frozen what is frozen" % v.path
                )
        self._check_rule(rule)
        self.optimizers, self.rule = optimizers, self.rule or rule
        self.variables = list(self.model.trainable_variables)
        self.block.grads[:] = 0

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

    def of_rank(self):
        """What the rank's values go into. Weights that no optimizer steps are the program's own (it
        assigns a moving average to them), and a server has them as they began."""
        return [v for v in self.variables if not self.served or id(v) in self._stepped]

    def stepped_by(self, optimizer, variables):
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
        self._stepped |= {id(v) for v in variables}
        return list(variables)
