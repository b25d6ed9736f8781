"""Programs with PyTorch: each is a training loop as a user writes it, with Evenstep's two lines. A
test names one as `torch_cases` and its function's name.

parts.py    what they share
steps.py    optimizers, modules
passes.py   backward passes, and what each counts
samples.py  loaders and samplers
gpu.py      on a GPU that is not there
state.py    the program's own state, faults, and going on
"""

from .gpu import gpu, gpu_failed_pass, gpu_one_event
from .passes import *
from .samples import *
from .state import *
from .steps import *
