"""Where batches come from.

loader.py     the DataLoader, rebuilt over the stream of slices (../../stream.py)
order.py      the order of a sampler of the program's own
batches.py    batch samplers of the program's own
zipped.py     a loader that zip() has beside the training loader
"""
