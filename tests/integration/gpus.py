"""A service whose nodes have GPUs: the CUDA device as its host build is, kernels/cuda as plain C++
on stand-ins for the CUDA libraries (tests/cuda), and a stand-in for the driver's statistics. It
shows that jobs, precisions, messages and telemetry go through; nothing here ran on a GPU."""
import contextlib

import pytest

from programs import BUILD
from service import Service

PLUGIN, NVML = BUILD / "evenstep-cuda-host.so", BUILD / "libevenstep-nvml.so"
WITH_GPU = {"EVENSTEP_CUDA_PLUGIN": str(PLUGIN), "EVENSTEP_CUDA_DRIVER": str(PLUGIN),
            "EVENSTEP_NVML": str(NVML),
            "EVENSTEP_CUDA_MEASURE_SECONDS": "1000"} # however slow this machine is
OLD_CPU = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}  # without bf16, on any machine


@contextlib.contextmanager
def service_with_gpus(*nodes, **environment):
    if not PLUGIN.exists():
        pytest.skip(f"{PLUGIN} is not built (make check-build)")
    with Service(nodes=nodes, env={**WITH_GPU, **OLD_CPU, **environment}) as s:
        yield s
