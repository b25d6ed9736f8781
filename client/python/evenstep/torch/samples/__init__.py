"""Where batches come from.

loader.py   in place of the user's DataLoader: what a loop over it gets
load.py     the DataLoader made anew, over the stream of slices (../../stream.py)
spare.py    batches of which no step is made
about.py    what the rank is told of a loader, and which ones are refused
order.py    the order of a sampler of the program's own
batches.py  batch samplers of the program's own
fitted.py   batches of a later epoch, in as many as the first one had
whole.py    a data set whose items are whole batches
zipped.py   a loader that zip() has beside the training loader
"""
