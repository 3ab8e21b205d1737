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
#   CFLAGS=...             one level for all; without it each part has its own (LEVEL, below)

.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# All cores, unless the command line names a number (-j1).
CORES := $(shell nproc 2>/dev/null || echo 2)
ifeq ($(MAKELEVEL),0)
  MAKEFLAGS += -j$(CORES)
endif

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
  QEMU := qemu-$(TARGET_ARCH)
  RUN ?= $(notdir $(firstword $(shell command -v $(QEMU)-static $(QEMU) 2>/dev/null) $(QEMU)))
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
JOBS ?= $(CORES)

# What a build with the CUDA backend shares with the plain one is made there: build, of build/cuda-emulated.
PLAIN := $(if $(VARIANT),$(BUILD:%$(VARIANT)=%),$(BUILD))

# Where no CFLAGS are given each part has the level that it is worth. Kernels gain by -O3. Loops of ops gain by the
# vectorizer, but not by -O3, which unrolls them completely: half of their time in the compiler. What builds, loads and
# plans runs once. Examples and benchmarks are -O2 because their speed is reported. Tests run once: what optimizing them
# takes, five times as long in the compiler, they do not give back, but for those that are tagged.
ifeq ($(origin CFLAGS),undefined)
  DEFAULT_FLAGS := 1
  CFLAGS = $(LEVEL)
endif
LEVEL := -O2
LEVEL_OF_KERNELS := -O3
LEVEL_OF_OPS := -O2 -ftree-vectorize $(if $(findstring clang,$(CC)),,-fvect-cost-model=dynamic)
LEVEL_OF_TESTS := -O1
LEVEL_OF_PLANNING := -O1
LEVEL_OF_CASES := -O0
# SMALL=yes: the small library (BS_SMALL). With the address sanitizer clang takes two minutes in the other's kernels.
ifneq ($(and $(DEFAULT_FLAGS),$(SANITIZE)),)
  ADDRESS := $(findstring address,$(SANITIZE))
  LEVEL := $(if $(and $(ADDRESS),$(findstring clang,$(CC))),-Os,-O1) -g1
  SMALL ?= $(and $(ADDRESS),$(findstring clang,$(CC)))
  LEVEL_OF_KERNELS := $(LEVEL)
  LEVEL_OF_OPS := $(LEVEL)
  LEVEL_OF_TESTS := $(LEVEL)
  LEVEL_OF_CASES := -O0 -g1
  LEVEL_OF_PLANNING := $(LEVEL)
endif
PLANNING := base/cursor graph/% ops/structure ops/routers ops/segments ops/describe ops/ports plan/% profile/read \
  profile/trace stream/store_plan stream/replay run/session_make run/session_memory run/device_layout run/report model/%
level_of = $(foreach d,$(sort $(PLAIN) $(BUILD)),$(1:%=$(d)/obj/%.o))
# private: flags of a file, not of what it depends on
$(call level_of,src/kernels/% unit_kernels): private LEVEL = $(LEVEL_OF_KERNELS)
$(call level_of,src/ops/% unit_ops): private LEVEL = $(LEVEL_OF_OPS)
$(call level_of,tests/% src/cuda/%): private LEVEL = $(LEVEL_OF_TESTS)
$(call level_of,tests/test_% tests/fuzz/%): private LEVEL = $(LEVEL_OF_CASES)
$(call level_of,$(PLANNING:%=src/%) unit_planning): private LEVEL = $(LEVEL_OF_PLANNING)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla
# BS_VERIFY: tests and `brainstorm plan --verify` look at the bytes of plans, too.
INCLUDES := -I. -Isrc -Itests -Iexamples -Iexamples/video -Iexamples/moe_text -DBS_VERIFY
SANITIZER_FLAGS = $(SANITIZE:%=-fsanitize=% -fno-sanitize-recover=all -fno-omit-frame-pointer)
# What sanitizers can find in kernels for AVX-512 they find in those for AVX2: one template.
COMPILE = $(CC) -std=c11 $(WARNINGS) $(INCLUDES) $(if $(SANITIZE),-DBS_NO_AVX512) $(if $(SMALL),-DBS_SMALL) \
  $(CPPFLAGS) $(CFLAGS) $(SANITIZER_FLAGS)
LINK = $(if $(CUDA),$(CXX),$(CC)) $(CFLAGS) $(SANITIZE:%=-fsanitize=%) $(CUDA_LDFLAGS) $(LDFLAGS)
LDLIBS := -lm -lpthread

include tools/cuda.mk
include tools/coverage.mk

VERSION := $(shell sed -n 's/^\#define BS_VERSION_[MP][A-Z]* \([0-9]*\)$$/\1/p' brainstorm.h | paste -sd. -)

# --- what ------------------------------------------------------------------------------------------------

# The library, from its parts; AMALGAM=1 builds it from brainstorm.c instead, as users do.
ifeq ($(AMALGAM),1)
  LIBRARY_SOURCES := brainstorm.c
  INCLUDES += -DBS_INTERNAL= # tests see the insides
else
  LIBRARY_SOURCES := $(filter-out src/cuda/%,$(wildcard src/*/*.c))
endif

# Programs by name and the file with their main(). Other files beside these are modules for all to use.
PROGRAM_MAINS := \
  brainstorm:examples/brainstorm_cli.c \
  minimal:examples/minimal.c \
  ragged_lstm:examples/time/ragged_lstm.c \
  greedy_decoder:examples/time/greedy_decoder.c \
  tree_lstm:examples/time/tree_lstm.c \
  demo_clip:examples/demo/demo_clip.c \
  demo_pictures:examples/demo/demo_pictures.c \
  video_sr:examples/video/video_sr.c \
  halve:examples/video/halve.c \
  moe_text:examples/moe_text/moe_text.c \
  bare_workstation:examples/bare/workstation.c

EXAMPLE_SOURCES := $(wildcard examples/*.c examples/*/*.c)
PROGRAMS := $(foreach p,$(PROGRAM_MAINS),$(if $(wildcard $(lastword $(subst :, ,$(p)))),$(firstword $(subst :, ,$(p)))))
EXAMPLE_MODULES := $(filter-out $(foreach p,$(PROGRAM_MAINS),$(lastword $(subst :, ,$(p)))),$(EXAMPLE_SOURCES))

# tests/test_*.{c,sh,py} are tests; what has a main() in bench/ is a benchmark; other C files there are modules.
# What begins with cuda or test_cuda_ is for builds with the CUDA backend.
CUDA_TESTS := $(wildcard tests/test_cuda_*.c tests/test_cuda_*.sh tests/test_cuda_*.py)
TEST_C := $(filter-out $(CUDA_TESTS),$(wildcard tests/test_*.c))
TEST_SH := $(filter-out $(CUDA_TESTS),$(wildcard tests/test_*.sh))
TEST_PY := $(filter-out $(CUDA_TESTS),$(wildcard tests/test_*.py))
TEST_MODULES := $(filter-out tests/test_% $(if $(CUDA),,tests/cuda_%),$(wildcard tests/*.c))
BENCH_SOURCES := $(filter-out $(if $(CUDA),,bench/cuda%),$(wildcard bench/*.c))
BENCH_C := $(if $(BENCH_SOURCES),$(shell grep -l '^int main' $(BENCH_SOURCES)))
BENCH_MODULES := $(filter-out $(BENCH_C),$(BENCH_SOURCES)) $(if $(CUDA),$(wildcard bench/*.cu))

# The first comment of a test has its tags; tests/tags.txt says what each means. $(call with,asan tsan): the tests that
# have one of these.
TAGGED := $(shell awk '/^[^a-z]*tags: / { sub(/.*tags: /, ""); sub(/ *\*\/$$/, ""); \
  for (i = 1; i <= NF; i++) print FILENAME "=" $$i } FNR == 2 { nextfile }' \
  $(TEST_C) $(TEST_SH) $(TEST_PY) $(CUDA_TESTS))
with = $(foreach tag,$(1),$(patsubst %=$(tag),%,$(filter %=$(tag),$(TAGGED))))
comma := ,
used_by = $(subst $(comma), ,$(foreach t,$(1),$(patsubst $(t)=uses:%,%,$(filter $(t)=uses:%,$(TAGGED)))))

# TEST="test_gguf test_cli": only these. TAGS="long": those with one of these tags. Else TIER: quick, which leaves out
# what takes long, or all. Tests of the CUDA backend run in builds with it; TIER=all makes the emulation's for them.
TIER ?= quick
SLOW := $(call with,long minutes board)
OWN_TESTS := $(if $(CUDA),$(CUDA_TESTS),$(TEST_C) $(TEST_SH) $(TEST_PY))
OTHER_TESTS := $(if $(CUDA),,$(CUDA_TESTS))
files_of_test = $(or $(wildcard tests/$(1).c tests/$(1).sh tests/$(1).py),$(error no test is named $(1)))
ifdef TEST
  NAMED := $(foreach t,$(TEST),$(call files_of_test,$(t)))
  TESTS := $(filter $(NAMED),$(OWN_TESTS) $(if $(CUDA),$(TEST_C) $(TEST_SH) $(TEST_PY)))
  EMULATED_TESTS := $(filter $(NAMED),$(OTHER_TESTS))
else ifdef TAGS
  LEFT_OUT := $(if $(filter long minutes board,$(TAGS))$(filter all,$(TIER)),,$(SLOW))
  TESTS := $(filter-out $(LEFT_OUT),$(filter $(call with,$(TAGS)),$(OWN_TESTS)))
else
  LEFT_OUT := $(if $(filter all,$(TIER)),$(call with,board),$(SLOW) $(OTHER_TESTS))
  TESTS := $(filter-out $(if $(CUDA),,$(LEFT_OUT)),$(OWN_TESTS))
  EMULATED_TESTS := $(filter-out $(LEFT_OUT),$(OTHER_TESTS))
endif
# Why, a line each.
left_out = $(if $(filter $(LEFT_OUT),$(1)),echo 'left out: $(basename $(notdir $(filter $(LEFT_OUT),$(1)))) ($(2))';)

LIBRARY := $(BUILD)/libbrainstorm.a
PROGRAM_FILES := $(PROGRAMS:%=$(BUILD)/%)
TEST_FILES := $(patsubst tests/%.c,$(BUILD)/tests/%,$(filter %.c,$(TESTS)))
BENCH_FILES := $(BENCH_C:%.c=$(BUILD)/%)

# Objects of $(1). What differs in a build with the CUDA backend is made there; all else is shared with the plain build.
CUDA_C := $(if $(CUDA),$(filter %.c,$(CUDA_TESTS)) $(wildcard bench/cuda*.c) examples/device_options.c \
  examples/device_launches.c)
only_here = $(filter $(CUDA_C) %.cu tests/cuda_cpu/%,$(1))
objects = $(patsubst %,$(BUILD)/obj/%.o,$(basename $(only_here))) \
  $(patsubst %,$(PLAIN)/obj/%.o,$(basename $(filter-out $(only_here),$(1))))

# Parts that are one object each where no CFLAGS are given: in most files headers take longer than what is in the file,
# and <immintrin.h> alone half a second. What asks for more than C of the system stays alone, and so do the largest
# files, which come first: no core waits for another.
UNITS := $(if $(DEFAULT_FLAGS),$(if $(filter 1,$(AMALGAM)),,kernels ops planning running))
ALONE := src/base/platform_posix.c src/kernels/conv_avx2.c src/kernels/conv_avx512.c
UNIT_kernels := $(filter-out $(ALONE),$(filter src/kernels/%,$(LIBRARY_SOURCES)))
UNIT_planning := $(filter $(PLANNING:%=src/%.c),$(LIBRARY_SOURCES))
UNIT_ops := $(filter-out $(UNIT_planning),$(filter src/ops/%,$(LIBRARY_SOURCES)))
UNIT_running := $(filter-out $(ALONE) $(UNIT_kernels) $(UNIT_ops) $(UNIT_planning),$(LIBRARY_SOURCES))
NO_UNIT := $(filter-out $(foreach u,$(UNITS),$(UNIT_$(u))),$(LIBRARY_SOURCES))
LIBRARY_OBJECTS := $(call objects,$(NO_UNIT) $(CUDA_SOURCES)) $(UNITS:%=$(PLAIN)/obj/unit_%.o)

.PHONY: all demo demo-clips test test-all test-shipped test-small test-build coverage test-asan test-ubsan test-tsan \
        test-unsigned test-32 test-aarch64 test-modules mutants-cuda check-cuda consumers bench bench-planning \
        bench-imports bench-preload bench-products bench-time bench-zoo amalgamate check size sweep soak mutants lint \
        install clean help FORCE

all: $(LIBRARY) $(PROGRAM_FILES)

help:
	@echo 'make              $(LIBRARY) and the example programs'
	@echo 'make demo         upscale a clip on this machine (CLIP=file.y4m)'
	@echo 'make test         the tests, without those that take long (TEST=test_gguf: one of any; TAGS=long: those that' \
	  'tests/tags.txt calls so; TIER=all: all)'
	@echo 'make test-all     everything that can be tested here: an hour or two'
	@echo 'make test-asan    tests with address and undefined-behaviour sanitizers (also: test-ubsan)'
	@echo 'make test-tsan    those with threads, with the thread sanitizer'
	@echo 'make test-shipped  those that brainstorm.c can break, against it instead of src/'
	@echo 'make test-small   those that a small library can break (BS_SMALL)'
	@echo 'make test-unsigned  those of sizes and files, with clang, which reports unsigned sums that wrap'
	@echo 'make test-32      those that another processor can break, built with gcc -m32'
	@echo 'make test-aarch64 the same cross-built, under qemu'
	@echo 'make check-cuda    what nvcc makes of the CUDA backend: minutes'
	@echo 'make test-modules  brainstorm.c without each module, and without all of them'
	@echo 'make lint         stack, recursion, analyzers (PARTS=stack: one)'
	@echo 'make coverage     branches of src/ the tests take (TEST=... FILES=src/model/model.c: the ones these leave' \
	  'out there)'
	@echo 'make sweep        every cut, flip, arena too small and call that fails: minutes (tests take a part of them)'
	@echo 'make CUDA=1       with the CUDA backend, by nvcc (SMS="87 110"); CUDA=1 test: on the GPU of this machine'
	@echo 'make CUDA=emulated test    its tests without a GPU (make test-all runs them too, where the headers are)'
	@echo 'make fuzz         fuzzers, SECONDS=60 each (FUZZ=model: one); fuzz-corpus: their committed inputs, made anew'
	@echo 'make mutants      whether the tests notice faults that are planted (NAMES=wrong-slot: one)'
	@echo 'make mutants-cuda the same for the CUDA backend'
	@echo 'make soak         video without end: memory, descriptors and checksums stay the same (MINUTES=30)'
	@echo 'make bare         the example on a board without an operating system, under qemu'
	@echo 'make bench        benchmarks (CUDA=1: of the GPU; CUDA=emulated: that its results are right)'
	@echo 'make bench-preload  weights streamed from storage (ARGS="--quick")'
	@echo 'make bench-products  products, convolutions and whole networks beside PyTorch, ONNX Runtime and others' \
	  '(ARGS="--help")'
	@echo 'make bench-time   networks with loops beside PyTorch and ONNX Runtime (ARGS="--help")'
	@echo 'make bench-imports  networks from ONNX and ncnn beside ONNX Runtime and ncnn (ARGS="--help")'
	@echo 'make bench-zoo    LiveSR, MSDNet, DynamicRouting and other networks that decide, beside PyTorch (ARGS="--help")'
	@echo 'make bench-planning  instructions that planning takes, of networks of 1k to 64k nodes, and a run beside its' \
	  'kernels: minutes, by valgrind'
	@echo 'make amalgamate   generate brainstorm.c and brainstorm_cuda.cu from src/, and what Python knows of it'
	@echo 'make check        both are what src/ gives; strict builds; symbols'
	@echo 'make consumers    what is installed, or added to another project, can be used: make, CMake, pkg-config'
	@echo 'make size         bytes of brainstorm.c: small, and as fast as it gets; without each module; by folder'
	@echo 'make install      PREFIX=/usr/local DESTDIR='
	@echo 'make clean        remove $(BUILD_ROOT)/'

# --- how -------------------------------------------------------------------------------------------------

# V=1 shows the commands.
say = $(if $(V),,@echo '  $(if $(filter %.cu,$<),CUDA,CC) $<' && )

# Rewritten only when compiler or flags change: then everything is built again.
LEVELS = $(if $(DEFAULT_FLAGS),$(LEVEL_OF_KERNELS) | $(LEVEL_OF_OPS) | $(LEVEL_OF_TESTS) | $(LEVEL_OF_CASES) | \
  $(LEVEL_OF_PLANNING))
keep = mkdir -p $(@D) && echo '$(1)' | cmp -s - $@ || echo '$(1)' > $@
$(PLAIN)/flags: FORCE
	@$(call keep,$(COMPILE) | $(LEVELS))

$(BUILD)/flags_cuda: FORCE
	@$(call keep,$(COMPILE) $(CUDA_CPPFLAGS) | $(CUDA_COMPILE))

$(BUILD)/flags_link: FORCE
	@$(call keep,$(LINK) $(LDLIBS))

$(PLAIN)/obj/%.o: %.c $(PLAIN)/flags
	@mkdir -p $(@D)
	$(say)$(COMPILE) -MMD -MP -c $< -o $@

ifneq ($(CUDA_C),)
$(patsubst %.c,$(BUILD)/obj/%.o,$(CUDA_C)): $(BUILD)/obj/%.o: %.c $(PLAIN)/flags $(BUILD)/flags_cuda
	@mkdir -p $(@D)
	$(say)$(COMPILE) $(CUDA_CPPFLAGS) -MMD -MP -c $< -o $@
endif

# A unit includes its files; it is made again when one of them changes, appears or vanishes.
define unit
$(PLAIN)/obj/unit_$(1).c: FORCE
	@mkdir -p $$(@D) && printf '#include "%s"\n' $(UNIT_$(1)) > $$@.new
	@cmp -s $$@.new $$@ || cp $$@.new $$@

$(PLAIN)/obj/unit_$(1).o: $(PLAIN)/obj/unit_$(1).c $(PLAIN)/flags
	$$(if $$(V),,@echo '  CC the $(1) part: $(words $(UNIT_$(1))) files' && )$$(COMPILE) -MMD -MP -c $$< -o $$@
endef
$(foreach u,$(UNITS),$(eval $(call unit,$(u))))

# Tests that compute more than they check.
OPTIMIZED := $(patsubst %.c,$(PLAIN)/obj/%.o,$(filter %.c,$(call with,optimized)))
$(OPTIMIZED): private LEVEL = $(LEVEL_OF_TESTS)

# Lists of members: an archive is made again when a file appears in or vanishes from its folder.
archive = mkdir -p $(@D) && rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$(LIBRARY): $(LIBRARY_OBJECTS) $(BUILD)/members
	@$(archive)

# Modules of examples and benchmarks; the linker takes from them what a program uses. What the demo does without is
# apart.
EXAMPLES_ARCHIVE := $(BUILD)/libexamples.a
APART_ARCHIVE := $(BUILD)/libexamples_apart.a
APART := $(filter examples/cli_% examples/profile_cache.c examples/profile_facts.c examples/moe_text/% \
  examples/bare/%,$(EXAMPLE_MODULES))
BENCH_ARCHIVE := $(BUILD)/libbench.a
$(EXAMPLES_ARCHIVE): $(call objects,$(filter-out $(APART),$(EXAMPLE_MODULES))) $(BUILD)/members
	@$(archive)

$(APART_ARCHIVE): $(call objects,$(APART)) $(BUILD)/members
	@$(archive)
$(BENCH_ARCHIVE): $(call objects,$(BENCH_MODULES)) $(BUILD)/members
	@$(archive)
MODULES := $(APART_ARCHIVE) $(EXAMPLES_ARCHIVE) $(call objects,$(TEST_MODULES))

$(BUILD)/members: FORCE
	@$(call keep,$(sort $(LIBRARY_OBJECTS)) $(sort $(EXAMPLE_MODULES) $(TEST_MODULES) $(BENCH_MODULES)) | $(APART))

link = mkdir -p $(@D) && $(LINK) $(filter %.o,$^) $(filter-out $(LIBRARY),$(filter %.a,$^)) $(filter $(LIBRARY),$^) \
  $(LDLIBS) -o $@

# What only reads, draws and writes needs no library, so that the demo's clip is rendered while that is compiled.
WITHOUT_LIBRARY := demo_clip halve demo_pictures
define program
$(BUILD)/$(1): $(call objects,$(2)) $(if $(filter $(1),brainstorm moe_text bare_workstation),$(APART_ARCHIVE)) \
  $(EXAMPLES_ARCHIVE) $(if $(filter $(1),$(WITHOUT_LIBRARY)),,$(LIBRARY)) $(BUILD)/flags_link
	@$$(link)
endef
$(foreach p,$(PROGRAM_MAINS),$(eval $(call program,$(firstword $(subst :, ,$(p))),$(lastword $(subst :, ,$(p))))))

$(BUILD)/tests/%: $(PLAIN)/obj/tests/%.o $(MODULES) $(LIBRARY) $(BUILD)/flags_link
	@$(link)

$(BUILD)/tests/test_placing: $(BENCH_ARCHIVE)

$(BUILD)/tests/test_cuda_%: $(BUILD)/obj/tests/test_cuda_%.o $(BENCH_ARCHIVE) $(MODULES) $(LIBRARY) $(BUILD)/flags_link
	@$(link)

$(foreach b,$(BENCH_C),$(eval $(b:%.c=$(BUILD)/%): $(call objects,$(b))))
$(BENCH_FILES): $(BENCH_ARCHIVE) $(MODULES) $(LIBRARY) $(BUILD)/flags_link
	@$(link)

.SECONDARY:
-include $(shell find $(sort $(PLAIN)/obj $(BUILD)/obj) -name '*.d' 2>/dev/null)

# --- tests -----------------------------------------------------------------------------------------------

# What does not build counts as failed, and the tests that do still run: hence a make of its own, with -k.
test-build: $(TEST_FILES) $(if $(filter %.sh %.py,$(TESTS)),$(PROGRAM_FILES)) \
  $(addprefix $(BUILD)/,$(sort $(call used_by,$(TESTS))))

# Tests of the CUDA backend run in the emulation, from a build of their own below this one. LIST=1 prints the names.
ifeq ($(LIST),1)
test:
	@printf '%s\n' $(basename $(notdir $(TESTS) $(EMULATED_TESTS)))
else
test:
	@$(MAKE) --no-print-directory -k test-build; built=$$?; \
	$(if $(EMULATED_TESTS),$(if $(CUDA_HEADERS),$(MAKE) --no-print-directory -k test-build CUDA=emulated \
	  BUILD='$(BUILD)/cuda-emulated' TEST='$(basename $(notdir $(EMULATED_TESTS)))' || built=1; \
	  CUDA_BUILD='$(BUILD)/cuda-emulated') \
	  CUDA_OBSTACLE='$(CUDA_OBSTACLE)'; export CUDA_BUILD CUDA_OBSTACLE;) \
	$(if $(TAGS)$(CUDA),,$(call left_out,$(OTHER_TESTS),the CUDA backend: make test CUDA=emulated) \
	  $(call left_out,$(call with,long minutes),they take long: make test TIER=all) \
	  $(call left_out,$(call with,board),a board under qemu: make bare)) \
	BUILT=$$built BUILD='$(BUILD)' RUN='$(RUN)' PYTHON='$(PYTHON)' SECONDS_EACH='$(SECONDS_EACH)' JOBS='$(JOBS)' \
	  sh tests/run.sh $(EMULATED_TESTS) $(TESTS)
endif

# Everything: CI's stages, each whole, and those that take long. An hour or two, and it wants all tools.
test-all:
	@bash tests/stages.sh all

# Other builds run the tests whose tags say that they can find something new there. SECONDS_EACH: of a processor, that a
# test may take; slower by 2 (address), 10 (thread) and 20 (qemu).
chosen = $(if $(TEST),TEST='$(TEST)',TAGS='$(or $(TAGS),$(1))')
test-asan test-ubsan:
	@$(MAKE) --no-print-directory test $(call chosen,asan unsigned) BUILD='$(PLAIN)/asan$(VARIANT)' \
	  SANITIZE=address,undefined,float-cast-overflow SECONDS_EACH=600

# Only clang sees sums of unsigned numbers that wrap. It compiles the small library, whose kernels have forms of their
# own.
test-unsigned:
	@$(MAKE) --no-print-directory test $(call chosen,unsigned) BUILD='$(PLAIN)/unsigned' CC=clang \
	  SANITIZE=address,undefined,float-cast-overflow,unsigned-integer-overflow SECONDS_EACH=600

test-tsan:
	@$(MAKE) --no-print-directory test $(call chosen,tsan) BUILD='$(PLAIN)/tsan$(VARIANT)' SANITIZE=thread \
	  SECONDS_EACH=900

# What a small library does in its own way.
test-small:
	@$(MAKE) --no-print-directory test $(call chosen,small) BUILD='$(PLAIN)/small' SMALL=yes CFLAGS=-Os

# The file that users copy, instead of src/.
test-shipped:
	@$(MAKE) --no-print-directory test $(call chosen,shipped) BUILD='$(PLAIN)/shipped' AMALGAM=1

test-aarch64:
	@$(MAKE) --no-print-directory test $(call chosen,aarch64) BUILD='$(PLAIN)/aarch64' TARGET_ARCH=aarch64 \
	  SECONDS_EACH=1200

# size_t of 32 bits, on this machine: gcc-multilib has the libraries. Floats as everywhere but on the x87, whose sums
# have 80 bits.
CC_32 ?= gcc -m32 -msse2 -mfpmath=sse -Wno-psabi -idirafter /usr/include/x86_64-linux-gnu
test-32:
	@$(MAKE) --no-print-directory test $(call chosen,32-bit) BUILD='$(PLAIN)/32' CC='$(CC_32)' SECONDS_EACH=600

# The tests that take a part of their cases only, with all of them.
SWEEPS := $(basename $(notdir $(filter-out $(CUDA_TESTS),$(call with,sweep))))
CUDA_SWEEPS := $(if $(CUDA_HEADERS),$(basename $(notdir $(filter $(CUDA_TESTS),$(call with,sweep)))))
SWEEP_PROGRAMS := $(SWEEPS:%=$(BUILD_ROOT)/asan/tests/%)
CUDA_SWEEP_PROGRAMS := $(CUDA_SWEEPS:%=$(BUILD_ROOT)/asan/cuda-emulated/tests/%)
SWEPT = SANITIZE=address,undefined,float-cast-overflow
sweep:
	@$(MAKE) --no-print-directory $(SWEEP_PROGRAMS) BUILD='$(BUILD_ROOT)/asan' $(SWEPT)
	@$(if $(CUDA_SWEEPS),$(MAKE) --no-print-directory $(CUDA_SWEEP_PROGRAMS) CUDA=emulated \
	  BUILD='$(BUILD_ROOT)/asan/cuda-emulated' $(SWEPT), \
	  echo 'test_cuda_sweep is left out: $(or $(CUDA_OBSTACLE),there is none)')
	@STRIDE='$(STRIDE)' sh tests/sweep.sh $(SWEEP_PROGRAMS) $(CUDA_SWEEP_PROGRAMS)

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
	@BUILD='$(BUILD)' MAKE='$(MAKE)' bash tests/mutants.sh tests/mutants.txt $(NAMES)

mutants-cuda:
	@BUILD='$(BUILD)' MAKE='$(MAKE)' CUDA=emulated CUDA_HOME='$(CUDA_HOME)' \
	  bash tests/mutants.sh tests/cuda_mutants.txt $(NAMES)

# With the CUDA backend the GPU's benchmark alone; the emulation checks its results.
BENCH_RUN := $(if $(CUDA),%/cuda,$(filter-out \
  %/preload %/large_run %/interpreter %/footprint %/products %/networks %/blas,$(BENCH_FILES)))
bench: $(BENCH_FILES) $(PROGRAM_FILES)
	@for program in $(filter $(BENCH_RUN),$(BENCH_FILES)); do \
	  echo "== $$program"; $(RUN) $$program $(if $(CUDA),$(ARGS)) || exit 1; \
	done

# Some minutes by itself. Its scratch files lie in $TMPDIR, else in build/.
bench-preload: $(BUILD)/bench/preload
	@$(RUN) $< $(ARGS)

# Beside peers, which bench/peers/requirements.txt names: those that PYTHON has. Many minutes; ARGS="--only gemm,bert".
$(BUILD)/bench/blas: private LDLIBS += -ldl
bench-products: $(BUILD)/bench/products $(BUILD)/bench/networks $(BUILD)/bench/blas
	@BUILD='$(BUILD)' $(PYTHON) bench/peers/products.py $(ARGS)

bench-time: $(BUILD)/bench/products $(BUILD)/bench/networks
	@BUILD='$(BUILD)' $(PYTHON) bench/peers/times.py $(ARGS)

# Somebody's networks, which it fetches or exports into a folder: ARGS="--cache FOLDER".
bench-imports: $(BUILD)/bench/networks $(BUILD)/brainstorm
	@BUILD='$(BUILD)' $(PYTHON) bench/peers/imports.py $(ARGS)

# PYTHON has torch, onnxscript and what `pip install ./python` builds. Exports go to $$ZOO, or build/zoo: minutes.
bench-zoo: $(BUILD)/bench/branches
	@BUILD='$(BUILD)' $(PYTHON) zoo/bench.py $(ARGS)

# Minutes, under valgrind: whether planning takes time in proportion to a network, and a run in proportion to its
# layers.
bench-planning: $(BUILD)/bench/planning $(BUILD)/bench/large_run
	@BUILD='$(BUILD)' sh bench/planning.sh
	@BUILD='$(BUILD)' sh bench/large_overhead.sh

demo: demo-clips $(addprefix $(BUILD)/,video_sr demo_pictures)
	@BUILD='$(BUILD)' RUN='$(RUN)' sh examples/demo/demo.sh double
demo-clips: $(addprefix $(BUILD)/,demo_clip halve)
	@BUILD='$(BUILD)' RUN='$(RUN)' CLIP='$(CLIP)' sh examples/demo/demo.sh clips

include tools/fuzz.mk
include tools/bare.mk

# --- the shipped files -----------------------------------------------------------------------------------

amalgamate:
	@$(PYTHON) tools/amalgamate.py
	@$(PYTHON) tools/lists.py
	@$(PYTHON) tools/ops.py

# What others make of it: installed, or added to their project.
consumers:
	@BUILD='$(BUILD)/consumers' MAKE='$(MAKE)' CMAKE_TESTS='$(CMAKE_TESTS)' sh tests/consumers.sh

check:
	@BUILD='$(BUILD)/check' PYTHON='$(PYTHON)' MAKE='$(MAKE)' sh tests/check.sh

# What nvcc makes of the CUDA backend (SMS="87 90 110", KERNELS=no: a fifth of the time).
check-cuda:
	@BUILD='$(BUILD)/cuda-build' CUDA_HOME='$(CUDA_HOME)' SMS='$(SMS)' KERNELS='$(KERNELS)' MAKE='$(MAKE)' \
	  sh tests/cuda_build.sh

# Each module left out, and all of them.
test-modules:
	@BUILD='$(BUILD)/modules' RUN='$(RUN)' COMPILERS='$(COMPILERS)' RUN_EACH='$(RUN_EACH)' sh tests/modules.sh

size:
	@BUILD='$(BUILD)/size' PYTHON='$(PYTHON)' ROWS='$(ROWS)' sh tests/size.sh

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include

BINDIR ?= $(PREFIX)/bin
DATADIR ?= $(PREFIX)/share/brainstorm
INSTALLED := $(filter brainstorm video_sr,$(PROGRAMS))

# From the folder of the CMake package to that of the header: by steps, where both are below PREFIX, so that it may be
# moved.
BELOW_PREFIX := $(and $(filter $(PREFIX)/%,$(LIBDIR)),$(filter $(PREFIX)/%,$(INCLUDEDIR)))
EMPTY :=
UP_FROM_LIBDIR := $(subst $(EMPTY) ,/,$(patsubst %,..,$(subst /, ,$(LIBDIR:$(PREFIX)/%=%))))
INCLUDE_BY_STEPS = $${CMAKE_CURRENT_LIST_DIR}/../../$(UP_FROM_LIBDIR)/$(INCLUDEDIR:$(PREFIX)/%=%)
INCLUDE_FROM_HERE = $(if $(BELOW_PREFIX),$(INCLUDE_BY_STEPS),$(INCLUDEDIR))

# fill TEMPLATE: the file that is installed, in $(BUILD).
fill = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|' \
  -e 's|@INCLUDEDIR@|$(INCLUDEDIR:$(PREFIX)/%=$${prefix}/%)|' -e 's|@VERSION@|$(VERSION)|' \
  -e 's|@CUDA_LIBS@|$(CUDA_LIBS)|' -e 's|@INCLUDE_FROM_HERE@|$(INCLUDE_FROM_HERE)|' \
  $(1) > $(BUILD)/$(notdir $(1:%.in=%))

install: $(LIBRARY) $(INSTALLED:%=$(BUILD)/%)
	install -d '$(DESTDIR)$(INCLUDEDIR)' '$(DESTDIR)$(LIBDIR)/pkgconfig' '$(DESTDIR)$(LIBDIR)/cmake/brainstorm' \
	  '$(DESTDIR)$(BINDIR)' '$(DESTDIR)$(DATADIR)'
	$(call fill,brainstorm.pc.in)
	$(call fill,tools/brainstorm-config.cmake.in)
	$(call fill,tools/brainstorm-config-version.cmake.in)
	install -m 644 brainstorm.h brainstorm_replay.h '$(DESTDIR)$(INCLUDEDIR)/'
	install -m 644 $(LIBRARY) '$(DESTDIR)$(LIBDIR)/'
	install -m 644 $(BUILD)/brainstorm.pc '$(DESTDIR)$(LIBDIR)/pkgconfig/'
	install -m 644 $(BUILD)/brainstorm-config.cmake $(BUILD)/brainstorm-config-version.cmake \
	  '$(DESTDIR)$(LIBDIR)/cmake/brainstorm/'
	install -m 755 $(INSTALLED:%=$(BUILD)/%) '$(DESTDIR)$(BINDIR)/'
	install -m 644 $(wildcard models/*.gguf) '$(DESTDIR)$(DATADIR)/'

clean:
	rm -rf $(BUILD_ROOT)
