# brainstorm: library, examples, tests. `make help` lists the targets.
#
# Owns the development build. Users of the library need none of it: they compile brainstorm.c.
# Needs make and a C compiler; python3 only for `make amalgamate` and parts of `make check`; for the GPU a CUDA toolkit.
#
# Variables follow NVIDIA's samples where they mean the same:
#   TARGET_ARCH=aarch64    cross-build into build/aarch64, tests run under qemu
#   HOST_COMPILER=...      the compiler for that (a name that ends in g++ stands for its C sibling)
#   CUDA=1, SMS="87 110"   with the CUDA backend, built by nvcc for these architectures, into build/cuda
#   CUDA=emulated          with the CUDA backend built by the C++ compiler and run by tests/cuda_cpu, into
#                          build/cuda-emulated: wants the headers of the toolkit, no nvcc, no GPU
#   CUDA_HOME=...          the toolkit [/usr/local/cuda]
#   JOBS=2                 tests, and fuzzers, that run at a time [as many as there are cores]

.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# --- where and with what ---------------------------------------------------------------------------------

HOST_ARCH := $(shell uname -m)
TARGET_ARCH ?= $(HOST_ARCH)
BUILD_ROOT := build

ifneq ($(filter-out 1 emulated,$(CUDA)),)
  $(error CUDA is 1 or emulated, not $(CUDA))
endif
VARIANT := $(if $(filter 1,$(CUDA)),/cuda)$(if $(filter emulated,$(CUDA)),/cuda-emulated)

ifeq ($(TARGET_ARCH),$(HOST_ARCH))
  BUILD ?= $(BUILD_ROOT)$(VARIANT)
  HOST_COMPILER ?= cc
  RUN ?=
else
  BUILD ?= $(BUILD_ROOT)/$(TARGET_ARCH)$(VARIANT)
  HOST_COMPILER ?= $(TARGET_ARCH)-linux-gnu-gcc
  RUN ?= $(notdir $(firstword $(shell command -v qemu-$(TARGET_ARCH)-static qemu-$(TARGET_ARCH) 2>/dev/null) qemu-$(TARGET_ARCH)))
  LDFLAGS += $(if $(filter 1,$(CUDA)),,-static) # NVIDIA's libraries are shared ones
endif

ifneq ($(filter default undefined,$(origin CC)),)
  CC := $(patsubst %g++,%gcc,$(patsubst %clang++,%clang,$(HOST_COMPILER)))
endif
# The C++ sibling of the C compiler: only the CUDA backend is C++.
ifneq ($(filter default undefined,$(origin CXX)),)
  CXX := $(if $(filter cc,$(CC)),c++,$(subst clang,clang++,$(subst gcc,g++,$(CC))))
endif
ifneq ($(filter default undefined,$(origin AR)),)
  AR := $(if $(filter $(TARGET_ARCH),$(HOST_ARCH)),ar,$(TARGET_ARCH)-linux-gnu-ar)
endif
PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

CFLAGS ?= -O3 -g
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla
INCLUDES := -I. -Isrc -Itests -Iexamples -Iexamples/video -Iexamples/moe_text
COMPILE = $(CC) -std=c11 $(WARNINGS) $(INCLUDES) $(CUDA_CPPFLAGS) $(CPPFLAGS) $(CFLAGS) $(SANITIZE:%=-fsanitize=% -fno-sanitize-recover=all -fno-omit-frame-pointer)
LINK = $(if $(CUDA),$(CXX),$(CC)) $(CFLAGS) $(SANITIZE:%=-fsanitize=%) $(CUDA_LDFLAGS) $(LDFLAGS)
LDLIBS := -lm -lpthread

include tools/cuda.mk
include tools/coverage.mk

VERSION := $(shell sed -n 's/^\#define BS_VERSION_[MP][A-Z]* \([0-9]*\)$$/\1/p' brainstorm.h | paste -sd. -)

# --- what ------------------------------------------------------------------------------------------------

# The library, from its parts; AMALGAM=1 builds it from brainstorm.c instead, as users do.
ifeq ($(AMALGAM),1)
  LIBRARY_SOURCES := brainstorm.c
else
  LIBRARY_SOURCES := $(filter-out src/cuda/%,$(wildcard src/*.c src/*/*.c))
endif

# Programs by name and the file with their main(). Other files beside these are modules for all to use.
PROGRAM_MAINS := \
  brainstorm:examples/brainstorm_cli.c \
  minimal:examples/minimal.c \
  demo_clip:examples/demo_clip.c \
  demo_pictures:examples/demo_pictures.c \
  video_sr:examples/video/video_sr.c \
  halve:examples/video/halve.c \
  moe_text:examples/moe_text/moe_text.c

EXAMPLE_SOURCES := $(wildcard examples/*.c examples/video/*.c examples/moe_text/*.c)
PROGRAMS := $(foreach p,$(PROGRAM_MAINS),$(if $(wildcard $(lastword $(subst :, ,$(p)))),$(firstword $(subst :, ,$(p)))))
EXAMPLE_MODULES := $(filter-out $(foreach p,$(PROGRAM_MAINS),$(lastword $(subst :, ,$(p)))),$(EXAMPLE_SOURCES))

# tests/test_*.{c,sh,py} are tests; what has a main() in bench/ is a benchmark; other C files there are modules.
# What begins with cuda or test_cuda_ is for builds with the CUDA backend.
CUDA_TESTS := $(wildcard tests/test_cuda_*.c tests/test_cuda_*.sh)
TEST_C := $(filter-out $(CUDA_TESTS),$(wildcard tests/test_*.c))
TEST_SH := $(filter-out $(CUDA_TESTS),$(wildcard tests/test_*.sh))
TEST_PY := $(wildcard tests/test_*.py)
TEST_MODULES := $(filter-out tests/test_% $(if $(CUDA),,tests/cuda_%),$(wildcard tests/*.c))
BENCH_SOURCES := $(filter-out $(if $(CUDA),,bench/cuda%),$(wildcard bench/*.c))
BENCH_C := $(if $(BENCH_SOURCES),$(shell grep -l '^int main' $(BENCH_SOURCES)))
BENCH_MODULES := $(filter-out $(BENCH_C),$(BENCH_SOURCES)) $(if $(CUDA),$(wildcard bench/*.cu))

# Tests that start no thread: the thread sanitizer would only make them slow.
THREADLESS := $(patsubst %,tests/test_%.c,conv_kernels damage demo_clip describe elementwise_kernels graph ground lies messages_file \
  messages_graph messages_plan model_calls numbers picture references replay stream stream_edges sweep_arena sweep_file y4m)

# TEST="test_gguf test_cli" runs only these.
ifdef TEST
  named = $(filter $(foreach t,$(TEST),tests/$(t).c tests/$(t).sh tests/$(t).py),$(1))
  TESTS := $(call named,$(TEST_C) $(TEST_SH) $(TEST_PY) $(if $(CUDA),$(CUDA_TESTS)))
  EMULATED_TESTS := $(if $(CUDA),,$(call named,$(CUDA_TESTS)))
  ifeq ($(TESTS)$(EMULATED_TESTS),)
    $(error no test is named $(TEST))
  endif
else ifneq ($(CUDA),)
  # The thread sanitizer takes minutes for whole programs, whose kernels other tests run too.
  TESTS := $(if $(filter thread,$(SANITIZE)),$(filter-out %.sh,$(CUDA_TESTS)),$(CUDA_TESTS))
else
  # Python tests read what the library writes; a cross or sanitized build adds nothing to them. Nor to the emulation:
  # that is instrumented by CUDA=emulated.
  OTHER_BUILD := $(SANITIZE)$(filter-out $(HOST_ARCH),$(TARGET_ARCH))
  TESTS := $(if $(filter thread,$(SANITIZE)),$(filter-out $(THREADLESS),$(TEST_C)),$(TEST_C)) $(TEST_SH) $(if $(OTHER_BUILD),,$(TEST_PY))
  EMULATED_TESTS := $(if $(OTHER_BUILD),,$(CUDA_TESTS))
endif

LIBRARY := $(BUILD)/libbrainstorm.a
PROGRAM_FILES := $(PROGRAMS:%=$(BUILD)/%)
TEST_FILES := $(patsubst tests/%.c,$(BUILD)/tests/%,$(filter %.c,$(TESTS)))
BENCH_FILES := $(BENCH_C:%.c=$(BUILD)/%)
objects = $(patsubst %,$(BUILD)/obj/%.o,$(basename $(1)))

.PHONY: all demo test test-build coverage test-asan test-ubsan test-tsan test-aarch64 mutants-cuda bench bench-planning bench-preload amalgamate check size sweep soak mutants lint \
        install clean help FORCE

all: $(LIBRARY) $(PROGRAM_FILES)

help:
	@echo 'make              $(LIBRARY) and the example programs'
	@echo 'make demo         upscale a clip on this machine (CLIP=file.y4m)'
	@echo 'make test         all tests (TEST=test_gguf: one; AMALGAM=1: against brainstorm.c)'
	@echo 'make test-asan    the tests with address and undefined-behaviour sanitizers (also: test-ubsan)'
	@echo 'make test-tsan    the tests with the thread sanitizer'
	@echo 'make test-aarch64 the tests cross-built, under qemu'
	@echo 'make lint         stack, recursion, analyzers (PARTS=stack: one)'
	@echo 'make coverage     branches of src/ the tests take (TEST=... FILES=src/model.c: the ones these leave out there)'
	@echo 'make sweep        every cut, flip, arena too small and call that fails: minutes (tests take a part of them)'
	@echo 'make CUDA=1       with the CUDA backend, by nvcc (SMS="87 110"); CUDA=1 test: on the GPU of this machine'
	@echo 'make CUDA=emulated test    its tests without a GPU (make test runs them too, where the headers are)'
	@echo 'make mutants-cuda whether these tests notice faults that are planted (NAMES=stale-graph: one)'
	@echo 'make fuzz         fuzzers, SECONDS=60 each (FUZZ=model: one); fuzz-corpus: their committed inputs, made anew'
	@echo 'make mutants      whether the tests notice faults that are planted (NAMES=wrong-slot: one)'
	@echo 'make mutants-cuda the same for the CUDA backend'
	@echo 'make soak         video without end: memory, descriptors and checksums stay the same (MINUTES=30)'
	@echo 'make bench        benchmarks (CUDA=1: of the GPU; CUDA=emulated: that its results are right)'
	@echo 'make bench-preload  weights streamed from storage (ARGS="--quick")'
	@echo 'make bench-planning  instructions that planning takes, of networks of 1k to 64k nodes: minutes, by valgrind'
	@echo 'make amalgamate   generate brainstorm.c and brainstorm_cuda.cu from src/'
	@echo 'make check        both are what src/ gives; strict builds; symbols; installation'
	@echo 'make size         bytes of brainstorm.c at -Os'
	@echo 'make install      PREFIX=/usr/local DESTDIR='
	@echo 'make clean        remove $(BUILD_ROOT)/'

# --- how -------------------------------------------------------------------------------------------------

# V=1 shows the commands.
say = $(if $(V),,@echo '  $(if $(filter %.cu,$<),CUDA,CC) $<' && )

# Rewritten only when compiler or flags change: then everything is built again.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(COMPILE) | $(CUDA_COMPILE) | $(LINK)' | cmp -s - $@ || echo '$(COMPILE) | $(CUDA_COMPILE) | $(LINK)' > $@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(say)$(COMPILE) -MMD -MP -c $< -o $@

# Lists of members: an archive is made again when a file appears in or vanishes from its folder.
archive = mkdir -p $(@D) && rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$(LIBRARY): $(call objects,$(LIBRARY_SOURCES) $(CUDA_SOURCES)) $(BUILD)/members
	@$(archive)

# Modules of examples, tests and benchmarks; the linker takes from it what a program uses.
MODULES := $(BUILD)/libmodules.a
$(MODULES): $(call objects,$(EXAMPLE_MODULES) $(TEST_MODULES) $(BENCH_MODULES)) $(BUILD)/members
	@$(archive)

$(BUILD)/members: FORCE
	@mkdir -p $(@D)
	@echo '$(sort $(LIBRARY_SOURCES) $(CUDA_SOURCES) $(EXAMPLE_MODULES) $(TEST_MODULES) $(BENCH_MODULES))' | cmp -s - $@ || \
	  echo '$(sort $(LIBRARY_SOURCES) $(CUDA_SOURCES) $(EXAMPLE_MODULES) $(TEST_MODULES) $(BENCH_MODULES))' > $@

link = mkdir -p $(@D) && $(LINK) $(filter %.o,$^) $(MODULES) $(LIBRARY) $(LDLIBS) -o $@

define program
$(BUILD)/$(1): $(call objects,$(2)) $(MODULES) $(LIBRARY)
	@$$(link)
endef
$(foreach p,$(PROGRAM_MAINS),$(eval $(call program,$(firstword $(subst :, ,$(p))),$(lastword $(subst :, ,$(p))))))

$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(MODULES) $(LIBRARY)
	@$(link)

$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(MODULES) $(LIBRARY)
	@$(link)

.SECONDARY:
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# --- tests -----------------------------------------------------------------------------------------------

# What does not build counts as failed, and the tests that do still run: hence a make of its own, with -k.
test-build: $(TEST_FILES) $(PROGRAM_FILES)

# Tests of the CUDA backend run in the emulation, from a build of their own below this one.
test:
	@$(MAKE) --no-print-directory -k test-build; built=$$?; \
	$(if $(EMULATED_TESTS),$(if $(CUDA_HEADERS),$(MAKE) --no-print-directory -k test-build CUDA=emulated \
	  BUILD='$(BUILD)/cuda-emulated' TEST='$(basename $(notdir $(EMULATED_TESTS)))' || built=1; CUDA_BUILD='$(BUILD)/cuda-emulated') \
	  CUDA_OBSTACLE='$(CUDA_OBSTACLE)') \
	BUILT=$$built BUILD='$(BUILD)' RUN='$(RUN)' PYTHON='$(PYTHON)' TIMEOUT='$(TIMEOUT)' JOBS='$(JOBS)' \
	  sh tests/run.sh $(EMULATED_TESTS) $(TESTS)

# Slower by 2 (address), 10 (thread) and 20 (qemu): hence the seconds a test may take.
SANITIZED = CFLAGS='-O2 -g'
test-asan test-ubsan:
	@$(MAKE) --no-print-directory test BUILD='$(BUILD)/asan' SANITIZE=address,undefined,float-cast-overflow TIMEOUT=600 $(SANITIZED)

# The tests that take a part of their cases only, with all of them.
SWEEPS := $(basename $(notdir $(wildcard tests/test_sweep_*.c)))
CUDA_SWEEPS := $(if $(CUDA_HEADERS),$(basename $(notdir $(wildcard tests/test_cuda_sweep.c))))
SWEEP_PROGRAMS := $(SWEEPS:%=$(BUILD_ROOT)/asan/tests/%)
CUDA_SWEEP_PROGRAMS := $(CUDA_SWEEPS:%=$(BUILD_ROOT)/cuda-emulated/asan/tests/%)
SWEPT = SANITIZE=address,undefined,float-cast-overflow $(SANITIZED)
sweep:
	@$(MAKE) --no-print-directory $(SWEEP_PROGRAMS) BUILD='$(BUILD_ROOT)/asan' $(SWEPT)
	@$(if $(CUDA_SWEEPS),$(MAKE) --no-print-directory $(CUDA_SWEEP_PROGRAMS) CUDA=emulated BUILD='$(BUILD_ROOT)/cuda-emulated/asan' $(SWEPT), \
	  echo 'test_cuda_sweep is left out: $(or $(CUDA_OBSTACLE),there is none)')
	@sh tests/sweep.sh $(SWEEP_PROGRAMS) $(CUDA_SWEEP_PROGRAMS)

test-tsan:
	@$(MAKE) --no-print-directory test BUILD='$(BUILD)/tsan' SANITIZE=thread TIMEOUT=900 $(SANITIZED)

test-aarch64:
	@$(MAKE) --no-print-directory test BUILD='$(BUILD)/aarch64' TARGET_ARCH=aarch64 TIMEOUT=1200

# What can be found without running anything (PARTS="stack recursion": only these).
lint:
	@BUILD=build/lint PYTHON='$(PYTHON)' sh tests/lint.sh $(PARTS)

# Branches of src/ that the tests take; tools/coverage.mk has the build.
coverage:
	@BUILD=build/coverage MAKE='$(MAKE)' PYTHON='$(PYTHON)' TEST='$(TEST)' FILES='$(FILES)' sh tests/coverage.sh
# The test that `make test` runs for seconds, for as long as is asked.
soak: $(PROGRAM_FILES)
	@BUILD='$(BUILD)' RUN='$(RUN)' MINUTES='$(or $(MINUTES),30)' $(PYTHON) tests/test_soak.py

# Whether the tests notice faults that are planted (NAMES="wrong-slot": only these).
mutants:
	@BUILD='$(BUILD)' MAKE='$(MAKE)' sh tests/mutants.sh tests/mutants.txt $(NAMES)

mutants-cuda:
	@BUILD='$(BUILD)' MAKE='$(MAKE)' CUDA=emulated CUDA_HOME='$(CUDA_HOME)' sh tests/mutants.sh tests/cuda_mutants.txt $(NAMES)

# With the CUDA backend the GPU's benchmark alone; the emulation checks its results.
BENCH_RUN := $(if $(CUDA),%/cuda,$(filter-out %/preload %/large_run,$(BENCH_FILES)))
bench: $(BENCH_FILES) $(PROGRAM_FILES)
	@for program in $(filter $(BENCH_RUN),$(BENCH_FILES)); do echo "== $$program"; $(RUN) $$program $(if $(CUDA),$(ARGS)) || exit 1; done

# Some minutes by itself. Its scratch files lie in $TMPDIR, else in build/.
bench-preload: $(BUILD)/bench/preload
	@$(RUN) $< $(ARGS)

# Minutes, under valgrind: whether planning takes time in proportion to a network.
bench-planning: $(BUILD)/bench/planning
	@BUILD='$(BUILD)' sh bench/planning.sh

demo: all
	@BUILD='$(BUILD)' RUN='$(RUN)' CLIP='$(CLIP)' sh examples/demo.sh

include tools/fuzz.mk

# --- the shipped files -----------------------------------------------------------------------------------

amalgamate:
	@$(PYTHON) tools/amalgamate.py

check:
	@BUILD='$(BUILD)/check' PYTHON='$(PYTHON)' MAKE='$(MAKE)' sh tests/check.sh

size:
	@BUILD='$(BUILD)/size' sh tests/size.sh

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include

install: $(LIBRARY) $(filter $(BUILD)/brainstorm,$(PROGRAM_FILES))
	install -d '$(DESTDIR)$(INCLUDEDIR)' '$(DESTDIR)$(LIBDIR)/pkgconfig'
	install -m 644 brainstorm.h '$(DESTDIR)$(INCLUDEDIR)/brainstorm.h'
	install -m 644 $(LIBRARY) '$(DESTDIR)$(LIBDIR)/libbrainstorm.a'
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	    -e 's|@VERSION@|$(VERSION)|' -e 's|@CUDA_LIBS@|$(CUDA_LIBS)|' brainstorm.pc.in > $(BUILD)/brainstorm.pc
	install -m 644 $(BUILD)/brainstorm.pc '$(DESTDIR)$(LIBDIR)/pkgconfig/brainstorm.pc'
ifneq ($(filter brainstorm,$(PROGRAMS)),)
	install -d '$(DESTDIR)$(PREFIX)/bin'
	install -m 755 $(BUILD)/brainstorm '$(DESTDIR)$(PREFIX)/bin/brainstorm'
endif

clean:
	rm -rf $(BUILD_ROOT)
