"""The step of a slice: parameters and gradients in the shared block, the pass, the optimizer.

backward.py      where a backward begins, and the loss for display
passes.py        a backward pass: when it counts, what it weighs, what the rank answers
gradients.py     gradients go out as they are ready, and come back summed
aside.py         what param.grad held before a pass, set aside and put back
weight.py        what the samples of a slice weigh
blocks.py        parameters and running statistics stand in the shared block
buffers.py       other buffers that training moves, which are each node's own
changed.py       gradients that are divided between the pass and the step
streams.py       a GPU's gradients, on a stream of their own
accumulation.py  gradients that no step has used yet (no_sync)
shown_loss.py    the loss that the rank is told
optimizer.py     steps that are left out, or of which the difference is sent
rule.py          the optimizers as the rank knows them, and a server that makes their steps
idle.py          batches without a backward pass
spare.py         a batch of which no step is made
ahead.py         which batch a pass is over, where one more is in hand
taken.py         two batches before the first pass: one is in hand, or was passed over
manner.py        how the program takes batches, as it has shown so far
"""
