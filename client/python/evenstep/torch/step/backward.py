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


def _loss_in(tensors):
    first = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors or ()), None)
    return first if isinstance(first, torch.Tensor) and first.numel() == 1 else None


def _values_in(tensors, grad_tensors):
    """(values, the gradient that they are given), where the pass begins at many of them."""
    one = tensors if isinstance(tensors, torch.Tensor) else None
    gradient = grad_tensors[0] if isinstance(grad_tensors, (list, tuple)) else grad_tensors
    if one is None or one.grad_fn is None or not isinstance(gradient, torch.Tensor):
        return None
    return (one, gradient) if one.numel() > 1 and one.dim() else None


def watch(passes):
    backward = torch.autograd.backward

    @functools.wraps(backward)
    def backward_and_exchange(tensors, *args, **kwargs):
        if _Seen.depth == 0:
            passes.entered()
            loss = _loss_in(tensors)
            if loss is None:
                given = args[0] if args else kwargs.get("grad_tensors")
                passes.begins_at(_values_in(tensors, given))
            passes.scaler = _scaler_of(loss) if loss is not None else None
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
