"""The loss of a pass, as the rank is told it with the gradients. It is for display, and a job stops
at one that is NaN or infinite."""

import math


class ShownLoss:
    def __init__(self):
        self._value = None
        self.scaler = None  # the GradScaler that has scaled it

    def take(self, loss):
        """None: nobody knows it. A GPU's is read when its backward pass is under way."""
        if loss is not None:
            loss = loss.item() if loss.is_cpu else loss.detach()
        self._value = loss

    def forget(self):
        self._value = None

    def told(self, samples, weight):
        """For the mean over the slice's samples."""
        if self._value is None or (samples and not weight.rows):  # all its places are empty
            return math.nan
        loss = float(self._value)
        if self.scaler is not None:
            loss /= self.scaler.get_scale()  # NaN is met by leaving the step out
        elif math.isnan(loss) and samples and weight.mine:
            loss = math.inf  # to the rank NaN is a loss that nobody knows
        rows = weight.rows * 2 if weight.is_doubled() else weight.rows
        return loss / rows if weight.sums and rows else loss
