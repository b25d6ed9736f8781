"""A process that is started again: what it takes over, and where its loops go on.

state.py            the program's own state, and state_dict()
others.py           what prepare() was given beside PyTorch's objects
again.py            batches that were made before, once more, for what the program counts
rhythm.py           of how many batches it makes an optimizer's step
place.py            where the program's loop is: steps that it counts, gradients not used yet
habits.py           when schedules step, where a process's state is older than the run
schedules.py        schedules by batches, where each node has a number of its own
schedule_states.py  schedules in a state, and those that prepare() was not given
plateau.py          one by figures, whose state is older than the run
own_file.py         a program that goes on from a file of its own
"""
