"""The optimizer is the user's. Here: its steps, of which some are left out.

A step is left out by hiding the gradients from it: every optimizer passes over a parameter whose
gradient is None, and keeps its momentum as it was.

An optimizer that the program makes after prepare() takes the place of those that stepped its
parameters before: a server is told its rate, and states have it.
"""

import functools
import weakref

import torch
import torch.optim.optimizer as optim

from ...run import SKIP, STEP, VOID, Error
from .blocks import may_train


def _why_not_summed(passes):
    """The cause that the passes know, and what to write instead."""
    if passes.gradients.open:
        return (
            "this step stands within the backward pass, in a hook of a parameter "
            "(register_post_accumulate_grad_hook), where the gradients are this node's own: step "
            "after backward()"
        )
    if passes.slice is None and passes.ahead.left_over:
        return (
            "the last batches of the epoch had backward passes and no step in their loop, and this "
            "step stands after it, where the epoch is closed: step on what is left over within "
            "the loop, `if (i + 1) % n == 0 or i + 1 == len(loader): optimizer.step()`"
        )
    if passes.slice is None:
        return (
            "batches come from the loader that prepare() returned, each taken after the step of "
            "the one before. accelerator.prepare(loader) makes another loader, so leave it out; "
            "itertools.cycle(loader) keeps old batches and asks for no new ones: `while True: "
            "yield from loader` does"
        )
    if passes.follows_a_pass():
        return (
            "the next batch was taken between backward() and this step, and had no backward pass "
            "yet: a slice of the job ends where the next batch is taken, so take it after "
            "optimizer.step(); DataLoader(num_workers=…, prefetch_factor=…) reads ahead in the "
            "background"
        )
    if not passes.touched:
        return (
            "this batch had no backward pass. What torch.autograd.grad() or torch.func gives is "
            "summed by torch.autograd.backward(params, grads), in place of `p.grad = g`"
        )
    return "the last backward pass before a step stands outside no_sync(), and the step follows it"


def over_ranks(passes, loss):
    """The loss of the pass that has ended, as the program alone has it: the mean over all ranks, or
    their sum. By one more exchange; where gradients are not summed the rank's own."""
    run = passes.run
    if run.workers == 1 or passes.spare.at_hand or not passes.stepped or passes.answer != STEP:
        return loss
    grads = torch.frombuffer(run.grads, dtype=torch.float32)
    kept = grads.clone()
    run.again()
    if passes.slice.count:
        run.weight(passes.weight.mine)
    grads.zero_()
    grads[0] = float(loss) if passes.weight.mine else 0.0
    passes.answer = run.gradients(passes.samples)
    summed = grads[0].item()
    grads.copy_(kept)
    return torch.as_tensor(loss).new_tensor(summed)


class _Watch:
    def __init__(self, passes, blocks):
        self.passes, self.blocks = passes, blocks
        self.hidden = []
        self.steps = False  # an optimizer that steps the model is within its step
        self.told = weakref.WeakSet()  # optimizers of which the program was told
        self.later = weakref.WeakSet()  # those that were made after prepare()

    def mine(self, optimizer):
        """Whether it steps the model; a mixture with parameters that nobody sums is refused."""
        by_id = self.blocks.by_id
        known = [id(p) in by_id for g in optimizer.param_groups for p in g["params"]]
        if not all(known):
            params = [p for g in optimizer.param_groups for p in g["params"]]
            known = [k for k, p in zip(known, params) if may_train(p)]
        if all(known):
            return bool(known)
        self.blocks.check_replaced()
        if any(known):
            raise Error(
                "the optimizer %s steps parameters that are not in the prepared model: give "
                "prepare() the module that has them, too (torch.nn.ParameterList([p]) is one of a "
                "bare parameter p), or these an optimizer of their own" % type(optimizer).__name__
            )
        return False

    def tell_of_others(self, optimizer):
        """Parameters beside the model that train with it (weights of several losses, a network that
        was forgotten) part without a word."""
        run = self.passes.run
        if run.workers == 1 or not self.passes.in_a_step() or optimizer in self.told:
            return
        self.told.add(optimizer)
        if any(p.grad is not None for g in optimizer.param_groups for p in g["params"]):
            run.say(
                "the optimizer %s steps parameters that prepare() was not given: each node steps "
                "its own by the gradients of its own samples. If the loss depends on them, give "
                "prepare() their module (torch.nn.ParameterList([p]) is one of a bare parameter p) "
                "and this optimizer" % type(optimizer).__name__
            )

    def before(self, optimizer, args, kwargs):
        """May give other arguments for the step."""
        passes = self.passes
        if not self.mine(optimizer):
            self.tell_of_others(optimizer)
            return None
        passes.optimizers.made = lambda: None
        if optimizer in self.later and not any(optimizer is o for o in passes.optimizers.all):
            self.adopt(optimizer)
        closure = args[1] if len(args) > 1 else kwargs.get("closure")  # args[0] is the optimizer
        if not passes.stepped and not passes.spare.at_hand and closure is None:
            raise Error(
                "optimizer.step() on gradients that were not summed over the ranks: "
                + _why_not_summed(passes)
            )
        passes.optimizers.server.before_step()
        passes.changed.before_step(passes.samples)
        self.leave_out(optimizer)
        passes.place.optimizer_steps()
        self.steps = True
        if closure is None:
            return None

        decides = isinstance(optimizer, torch.optim.LBFGS)  # by the loss how far it goes

        def closure_and_leave_out():  # the answer comes with the closure's backward pass
            loss = closure()
            self.leave_out(optimizer)
            return over_ranks(passes, loss) if decides else loss

        if len(args) > 1:
            return (args[0], closure_and_leave_out, *args[2:]), kwargs
        return args, {**kwargs, "closure": closure_and_leave_out}

    def adopt(self, optimizer):
        """In place of those that stepped its parameters."""
        steps = {id(p) for g in optimizer.param_groups for p in g["params"]}
        others = [
            o
            for o in self.passes.optimizers.all
            if not any(id(p) in steps for g in o.param_groups for p in g["params"])
        ]
        self.passes.take_optimizers([*others, optimizer])
        self.passes.optimizers.on_adopted(self.passes.optimizers.all)

    def leave_out(self, optimizer):
        if self.passes.spare.at_hand or self.passes.answer in (SKIP, VOID):
            params = [p for g in optimizer.param_groups for p in g["params"]]
            self.hidden += [(p, p.grad) for p in params if p.grad is not None]
            for p in params:
                p.grad = None
        if isinstance(optimizer, torch.optim.SparseAdam):
            self.give_rows(optimizer)

    def give_rows(self, optimizer):
        """It takes no dense gradients, as sums over nodes are, and moves only the rows that have
        one: those that are not zero."""
        for p in (p for g in optimizer.param_groups for p in g["params"]):
            if p.grad is not None and p.grad.layout is torch.strided:
                self.hidden.append((p, p.grad))
                rows = p.grad.reshape(len(p), -1).any(1).nonzero().T
                p.grad = torch.sparse_coo_tensor(rows, p.grad[rows[0]], p.shape).coalesce()

    def after(self, optimizer, args, kwargs):
        if self.steps:
            self.steps = False
            self.passes.ahead.has_stepped()
        for p, grad in self.hidden:
            p.grad = grad
        self.hidden = []

    def note_made(self, optimizer):
        """Behind prepare(). The pass before its first step tells its rate."""
        params = [p for g in optimizer.param_groups for p in g["params"]]
        if all(id(p) in self.blocks.by_id or not may_train(p) for p in params):
            self.later.add(optimizer)
            self.passes.optimizers.made = weakref.ref(optimizer)


def _watch_made(watch):
    make = torch.optim.Optimizer.__init__

    @functools.wraps(make)
    def make_and_note(optimizer, *args, **kwargs):
        make(optimizer, *args, **kwargs)
        watch.note_made(optimizer)

    torch.optim.Optimizer.__init__ = make_and_note


def watch(passes, blocks):
    watch = _Watch(passes, blocks)
    _watch_made(watch)
    optim.register_optimizer_step_pre_hook(watch.before)
    optim.register_optimizer_step_post_hook(watch.after)
