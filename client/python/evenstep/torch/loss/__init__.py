"""The weight of a batch, which is what its loss is a mean over. It is read from autograd's graph.

divisor.py    the batches of a run: what each weighs, and what the program is told
divided.py    what one batch's loss was divided by
rows.py       what a mean or a sum is over
looped.py     losses of single samples that a program adds up itself
multiplied.py a mean times the number of what it is over, which is a sum
compared.py   losses that compare the samples of a batch with each other
graph.py      autograd's nodes
batch.py      what a batch holds
chain.py      the same as divided.py of older versions of PyTorch, which tell less
told.py       sentences
"""
