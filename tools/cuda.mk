# cuda.mk - how the Makefile builds the CUDA backend: by nvcc (CUDA=1), or for the emulation of the tests
# (CUDA=emulated). Owns what both add to the library and to a link. Without CUDA it adds nothing.
#
#   CUDA_HOME     the toolkit: /usr/local/cuda, or the folder nvidia/cu13 of NVIDIA's wheels
#   SMS           architectures, as in NVIDIA's samples; machine code for each, PTX for the highest
#   BS_NO_CUBLAS  1: without cuBLAS
#   TARGET_FS     root of the board's file system, for a cross link with the board's own libraries
#   CUDA_LIB      folder of libcudart and libcublas to link with

CUDA_HOME ?= /usr/local/cuda
NVCC ?= $(CUDA_HOME)/bin/nvcc

CUDA_INCLUDES := $(wildcard $(CUDA_HOME)/include $(CUDA_HOME)/include/cccl)
CUDA_HEADERS := $(wildcard $(CUDA_HOME)/include/cuda_runtime.h)
CUDA_OBSTACLE := $(if $(CUDA_HEADERS),,no CUDA headers in $(CUDA_HOME): CUDA_HOME=... tells where they are)

CUDA_SOURCES :=
CUDA_LIBS :=
CUDA_COMPILE :=

ifneq ($(CUDA),)
  ifeq ($(CUDA_HEADERS),)
    $(error $(CUDA_OBSTACLE))
  endif
  CUDA_SOURCES := $(if $(filter 1,$(AMALGAM)),brainstorm_cuda.cu,src/cuda/cuda.cu)
  CUDA_PARTS := brainstorm.h brainstorm_replay.h $(wildcard src/cuda/* src/*/*.h src/ops/*.inc bench/cuda*.h) \
    $(if $(filter emulated,$(CUDA)),$(wildcard tests/cuda_cpu/*.h))
  CUDA_CPPFLAGS := -DBS_CUDA $(if $(BS_NO_CUBLAS),-DBS_NO_CUBLAS)
endif

# --- nvcc ------------------------------------------------------------------------------------------------

ifeq ($(CUDA),1)
  CUDA_RELEASE := $(shell $(NVCC) --version 2>/dev/null | sed -n 's/.*release \([0-9]*\).*/\1/p')
  ifeq ($(CUDA_RELEASE),)
    $(error $(NVCC) does not run: CUDA_HOME=... tells where the toolkit is)
  endif
  # Boards that this toolkit can build for and that a JetPack with it runs on; beside them 90, a server's.
  SMS_OF_10 := 53 62 72
  SMS_OF_11 := 72 87
  SMS_OF_12 := 87 90
  SMS ?= $(or $(SMS_OF_$(CUDA_RELEASE)),87 90 110)
  SM_HIGHEST := $(shell printf '%s\n' $(SMS) | sort -n | tail -n 1)

  NVCCFLAGS ?= -O3 -lineinfo
  CUDA_CODE := $(foreach s,$(SMS),-gencode arch=compute_$(s),code=sm_$(s)) \
    -gencode arch=compute_$(SM_HIGHEST),code=compute_$(SM_HIGHEST)
  CUDA_AT_ONCE := $(if $(filter 10 11,$(CUDA_RELEASE)),,-t 0)
  CUDA_COMPILE = $(NVCC) -std=c++14 -ccbin $(CXX) $(CUDA_CODE) $(CUDA_AT_ONCE) -Xcompiler -Wall,-Wextra \
    -Xptxas -warn-spills -I. -Isrc $(CUDA_CROSS) $(CUDA_CPPFLAGS) $(CPPFLAGS) $(NVCCFLAGS)

  ifeq ($(TARGET_ARCH),$(HOST_ARCH))
    CUDA_LIB ?= $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib))
    CUDA_LDFLAGS := -L$(CUDA_LIB) -Wl,-rpath,$(CUDA_LIB)
  else
    # Boards up to JetPack 6 and Orin have targets/aarch64-linux, JetPack 7 the servers' targets/sbsa-linux. nvcc finds
    # the first by itself. Where neither is installed the headers of this machine serve, which are the same.
    CUDA_TARGET := $(firstword $(wildcard $(CUDA_HOME)/targets/$(TARGET_ARCH)-linux $(CUDA_HOME)/targets/sbsa-linux))
    CUDA_CROSS := $(if $(CUDA_TARGET),$(if $(filter %/sbsa-linux,$(CUDA_TARGET)),-target-dir sbsa-linux),\
      -I$(CUDA_HOME)/include -isystem $(CUDA_HOME)/include/cccl)
    BOARD_LIB := $(if $(TARGET_FS),$(firstword $(wildcard $(addprefix $(TARGET_FS)/usr/local/cuda/,lib64 lib))))
    CUDA_LIB ?= $(or $(BOARD_LIB),\
      $(if $(CUDA_TARGET),$(CUDA_TARGET)/lib),$(CUDA_STUBS))
    # Libraries to link with that do nothing, made of the names in this machine's: what is built with them runs on a
    # board.
    CUDA_STUBS := $(BUILD)/cuda-stubs
    CUDA_LDFLAGS := $(if $(TARGET_FS),--sysroot=$(TARGET_FS)) -L$(CUDA_LIB) -Wl,-rpath-link,$(CUDA_LIB)
    ifeq ($(CUDA_LIB),$(CUDA_STUBS))
      CUDA_LINKED := $(CUDA_STUBS)/libcudart.so
    endif
  endif
  CUDA_LIBS := $(if $(BS_NO_CUBLAS),,-lcublas) -lcudart -lstdc++
endif

# --- the emulation ---------------------------------------------------------------------------------------

# The engine is never instrumented: it tells the sanitizer by hand what a thread is. tests/cuda_cpu/README.md says why.
ifeq ($(CUDA),emulated)
  EMULATOR_SOURCES := $(wildcard tests/cuda_cpu/*.cpp)
  CUDA_SOURCES += $(EMULATOR_SOURCES)
  # Threads of a block: the thread sanitizer of clang follows 255 at most.
  BS_CUDA_THREADS ?= $(if $(findstring thread,$(SANITIZE)),64,128)
  CUDA_CPPFLAGS += -DBS_CUDA_CPU -DBS_CU_THREADS=$(BS_CUDA_THREADS) -Itests/cuda_cpu
  EMULATED = $(CXX) -std=c++14 -Wall -Wextra -Wno-unknown-pragmas -I. -Isrc $(CUDA_INCLUDES:%=-isystem %) \
    $(CUDA_CPPFLAGS) $(CPPFLAGS) $(CFLAGS)
  EMULATOR_SANITIZE := $(if $(findstring address,$(SANITIZE)),-DCUDA_CPU_ASAN) \
    $(if $(findstring thread,$(SANITIZE)),-DCUDA_CPU_TSAN)
  CUDA_COMPILE = $(EMULATED) $(SANITIZER_FLAGS) -x c++
  CUDA_LIBS := -lstdc++
endif

LDLIBS := $(CUDA_LIBS) $(LDLIBS)

# --- rules -----------------------------------------------------------------------------------------------

ifneq ($(CUDA),)
$(BUILD)/obj/%.o: %.cu $(CUDA_PARTS) $(BUILD)/flags_cuda
	@mkdir -p $(@D)
	$(say)$(CUDA_COMPILE) -c $< -o $@

$(BUILD)/obj/tests/cuda_cpu/%.o: tests/cuda_cpu/%.cpp $(wildcard tests/cuda_cpu/*.h) $(BUILD)/flags_cuda
	@mkdir -p $(@D)
	$(say)$(EMULATED) $(EMULATOR_SANITIZE) -c $< -o $@

$(BUILD)/libbrainstorm.a: | $(CUDA_LINKED)

$(CUDA_STUBS)/libcudart.so: tests/cuda_stubs.sh
	@CC='$(CC)' sh $< $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib)) $(@D)
endif
