"""The step of a slice: parameters and gradients in the shared block, the pass, the optimizer.

backward.py   where a backward begins, and the loss for display
passes.py     a backward pass: when it counts, what it weighs, what the rank answers
gradients.py  gradients go out as they are ready, and come back summed
weight.py     what the samples of a slice weigh
blocks.py     parameters and running statistics stand in the shared block
buffers.py    other buffers that training moves, which are each node's own
changed.py    gradients that are divided between the pass and the step
streams.py    a GPU's gradients, on a stream of their own
optimizer.py  steps that are left out, or of which the difference is sent
idle.py       batches without a backward pass
ahead.py      which batch a pass is over, where one more is in hand
taken.py      two batches before the first pass: one is in hand, or was passed over
"""
