# The CUDA plug-in, where nvcc is, and its host build, anywhere (included by the Makefile).
#
#   evenstep-cuda.so        CUDA=auto: if there is an nvcc; 1: must be; 0: never. CUDA_ARCH:
#                           comma-separated; PTX of the last one is added.
#   check-cuda-host         kernels/cuda as plain C++ against stand-ins of the CUDA runtime, cuDNN
#                           and cuBLAS (tests/cuda), under ASan and UBSan
#   check-gpu, bench-gpu    where a GPU is
#   gpu-kit                 both, packed for a machine where a GPU is, and none of our packages
CUDA      ?= auto
CUDA_ARCH ?= sm_80,sm_90
NVCC      ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
CXX       ?= g++
cuda_comma   := ,
cuda_archs   := $(subst $(cuda_comma), ,$(CUDA_ARCH))
cuda_sources := $(sort $(wildcard kernels/cuda/*.cu))
cuda_rooms    = $(BUILD)/kernels/memory.o $(BUILD)/kernels/steps.o $(call lib,job) \
                $(call lib,common)
# functions of other rooms are copied into the plug-in, and stay its own
CUDA_LINK    := -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-z,defs

# ---- the plug-in ---------------------------------------------------------------------------------
ifeq ($(CUDA),1)
cuda_on := 1
ifeq ($(NVCC),)
$(error CUDA=1, but there is no nvcc; put it on PATH or name it: make NVCC=/path/to/nvcc)
endif
else ifeq ($(CUDA),auto)
cuda_on := $(if $(SANITIZE),,$(if $(NVCC),1))
endif
CUDA_HOME   ?= $(patsubst %/bin/nvcc,%,$(NVCC))
# no fused multiply-add: a step gives the same bits as on the CPU (kernels/cuda/update.cu)
cuda_last   := $(patsubst sm_%,compute_%,$(lastword $(cuda_archs)))
NVCC_FLAGS  := -std=c++20 -O3 -fmad=false -I. -Wno-deprecated-declarations \
               -Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wno-unused-function \
               $(foreach a,$(cuda_archs),-gencode arch=$(a:sm_%=compute_%)$(cuda_comma)code=$(a)) \
               -gencode arch=$(cuda_last)$(cuda_comma)code=$(cuda_last)
$(foreach f,$(BUILD)/kernels/cuda/cuda.o $(BUILD)/host/kernels/cuda/cuda.o,\
    $(eval $(call has_identity,$(f))))
$(BUILD)/kernels/cuda/%.o: kernels/cuda/%.cu
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) $(IDENTITY) -MMD -MF $(@:.o=.d) -c $< -o $@
$(BUILD)/evenstep-cuda.so: $(cuda_sources:%.cu=$(BUILD)/%.o) $(cuda_rooms)
	$(NVCC) -shared -o $@ $^ \
	    $(CUDA_LINK:-Wl$(cuda_comma)%=-Xlinker=%) \
	    -Xlinker=-rpath,'$$ORIGIN',-rpath,'$$ORIGIN/../lib',-rpath,$(CUDA_HOME)/lib64 \
	    -lcudnn -lcublas -ljansson -lpthread
# plans of the real cuDNN, for which no GPU is needed
cudnn_test := $(BUILD)/tests/cudnn/test_plans
$(cudnn_test): tests/cudnn/test_plans.cu $(cuda_sources:%.cu=$(BUILD)/%.o) $(cuda_rooms)
	@mkdir -p $(@D)
	$(NVCC) -std=c++20 -O1 -I. -Xcompiler=-Wall -MMD -MP -MF $@.d $(filter %.cu %.o %.a,$^) -o $@ \
	    -Xlinker=-rpath,$(CUDA_HOME)/lib64 -lcudnn -lcublas -lcmocka -ljansson -lpthread
-include $(cudnn_test).d
ifeq ($(cuda_on),1)
all: $(BUILD)/evenstep-cuda.so
check-build: $(cudnn_test)
endif

# ---- the host build: a build folder of its own, with sanitizers ----------------------------------
host_tests   := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/cuda/test_*.c))
host_standin := $(patsubst %.cpp,$(BUILD)/host/%.o,$(wildcard tests/cuda/standin/*.cpp))
host_objects := $(cuda_sources:%.cu=$(BUILD)/host/%.o) $(host_standin)
HOST_FLAGS   := -std=c++20 $(SYMBOLS) -O1 -fPIC -fvisibility=hidden -ffp-contract=off -I. \
                -Itests/cuda/include -Wall -Wextra -Wno-unused-parameter -Wno-unused-function \
                -Wno-missing-field-initializers $(if $(DEVELOPER),-Werror) -MMD -MP
$(BUILD)/host/kernels/cuda/%.o: kernels/cuda/%.cu
	@mkdir -p $(@D)
	$(CXX) -x c++ $(HOST_FLAGS) $(SAN) $(IDENTITY) -c $< -o $@
$(BUILD)/host/%.o: %.cpp
	@mkdir -p $(@D)
	$(CXX) $(HOST_FLAGS) $(SAN) -c $< -o $@
$(BUILD)/host/tests/cuda/standin/plain.o: tests/cuda/standin/plain.cpp
	@mkdir -p $(@D)
	$(CXX) $(HOST_FLAGS) -O3 $(MARCH) -fassociative-math -fno-signed-zeros -fno-trapping-math \
	    -c $< -o $@
$(BUILD)/evenstep-cuda-host.so: $(host_objects) $(cuda_rooms)
	$(CXX) -shared $(SAN) -o $@ $^ $(filter-out -Wl$(cuda_comma)-z$(cuda_comma)defs,$(CUDA_LINK)) \
	    -ljansson -lpthread
standin_test := $(BUILD)/tests/cuda/test_standin
$(standin_test): $(BUILD)/host/tests/cuda/test_standin.o $(host_standin)
	@mkdir -p $(@D)
	$(CXX) $(SAN) -o $@ $^ -lcmocka -lpthread
$(BUILD)/tests/cuda/test_%: $(BUILD)/tests/cuda/test_%.o $(call libs,kernels)
	$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(L_kernels)

.PHONY: cuda-host-parts cuda-host check-cuda-host check-gpu bench-gpu gpu-kit
cuda-host-parts: $(BUILD)/evenstep-cuda-host.so $(host_tests) $(standin_test)
cuda-host:
	@+$(MAKE) --no-print-directory BUILD=$(BUILD)/cuda-host SANITIZE=address,undefined CUDA=0 \
	    OPT=-O1 SYMBOLS=-g1 cuda-host-parts
check-gpu: all $(host_tests) ## the CUDA device on this machine's GPU against the CPU
	tests/run cuda-gpu BUILD=$(BUILD)
gpu-kit: $(BUILD)/tests/bench/bench_gpu $(BUILD)/tests/bench/bench_step
gpu-kit: all $(host_tests) ## tests and benches of the CUDA device, packed for a machine with a GPU
	tests/cuda/kit $(BUILD) $(BUILD)/gpu-kit.tar.gz
bench-gpu: $(host_tests)
check-cuda-host: cuda-host ## the CUDA kernels as plain C++ on stand-ins: logic, not speed
	tests/run cuda-host BUILD=$(BUILD)
