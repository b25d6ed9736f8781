"""Where a backward pass begins and ends, and its loss.

Every way into autograd that a program writes (`loss.backward()`, `torch.autograd.backward`) goes
through torch.autograd.backward; it is wrapped once, for about a microsecond a pass. The loss is for
display: it is taken as it stands, divided by a GradScaler's factor.
"""

import functools
import weakref

import torch


class _Seen:
    depth = 0
    told_graph = False
    scaled = None  # (the loss that a GradScaler has scaled, the scaler)


def _scaler_of(tensor):
    scaled = _Seen.scaled
    return scaled[1] if scaled and scaled[0]() is tensor else None


def _watch_scaler(kind):
    scale = kind.scale

    @functools.wraps(scale)
    def scale_and_tell(self, outputs):
        scaled = scale(self, outputs)
        if isinstance(scaled, torch.Tensor) and self.is_enabled():
            _Seen.scaled = (weakref.ref(scaled), self)
        return scaled

    kind.scale = scale_and_tell


def _is_number(tensor):
    return isinstance(tensor, torch.Tensor) and tensor.numel() == 1


def _loss_in(tensors, gradients):
    """The sum of several, which is what autograd takes the gradient of."""
    given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors or ())
    first = given[0] if given and _is_number(given[0]) else None
    if len(given) < 2 or gradients is not None or not all(map(_is_number, given)):
        return first
    with torch.enable_grad():
        return functools.reduce(torch.add, [one.reshape(()) for one in given])


def _values_in(tensors, grad_tensors):
    """(values, the gradient that they are given), where the pass begins at many of them."""
    one = tensors if isinstance(tensors, torch.Tensor) else None
    gradient = grad_tensors[0] if isinstance(grad_tensors, (list, tuple)) else grad_tensors
    if one is None or one.grad_fn is None or not isinstance(gradient, torch.Tensor):
        return None
    return (one, gradient) if one.numel() > 1 and one.dim() else None


def _tell_of_graph(run):
    """The program asks for gradients that it may differentiate."""
    if run.workers > 1 and not _Seen.told_graph:
        _Seen.told_graph = True
        run.say(
            "backward(create_graph=True): param.grad comes back summed over the nodes and has "
            "no graph. torch.autograd.grad(loss, params, create_graph=True) gives what can be "
            "differentiated again, of this node's samples"
        )


def watch(passes):
    backward = torch.autograd.backward

    @functools.wraps(backward)
    def backward_and_exchange(tensors, *args, **kwargs):
        if _Seen.depth == 0:
            passes.idle.check_thread()  # which may be one of autograd's where the pass begins
            given = args[0] if args else kwargs.get("grad_tensors")
            loss = _loss_in(tensors, given)
            if loss is None:
                passes.begins_at(_values_in(tensors, given))
            of = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors or ()), None)
            passes.loss.scaler = _scaler_of(of) if loss is not None else None
            if kwargs.get("create_graph") or (len(args) > 2 and args[2]):
                _tell_of_graph(passes.run)
            passes.begin(loss)
        _Seen.depth += 1
        try:
            backward(tensors, *args, **kwargs)
        except BaseException:
            if _Seen.depth == 1:
                passes.abandon()
            raise
        finally:
            _Seen.depth -= 1
        if _Seen.depth == 0:
            passes.end()

    # torch.compile leaves its graph here; the mark alone, since the decorator imports its compiler
    backward_and_exchange._torchdynamo_disable = True
    torch.autograd.backward = backward_and_exchange
    _watch_scaler(getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler)
