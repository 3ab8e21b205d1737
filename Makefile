# brainstorm: library, examples, tests. `make help` lists the targets.
#
# Owns the development build. Users of the library need none of it: they compile brainstorm.c.
# Needs make and a C compiler; python3 only for `make amalgamate` and parts of `make check`.
#
# Variables follow NVIDIA's samples where they mean the same:
#   TARGET_ARCH=aarch64    cross-build into build/aarch64, tests run under qemu
#   HOST_COMPILER=...      the compiler for that (a name that ends in g++ stands for its C sibling)
#   CUDA=1, SMS="87 110"   the CUDA backend and the architectures to build it for (reserved)

.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# --- where and with what ---------------------------------------------------------------------------------

HOST_ARCH := $(shell uname -m)
TARGET_ARCH ?= $(HOST_ARCH)
BUILD_ROOT := build

ifeq ($(TARGET_ARCH),$(HOST_ARCH))
  BUILD ?= $(BUILD_ROOT)
  HOST_COMPILER ?= cc
  RUN ?=
else
  BUILD ?= $(BUILD_ROOT)/$(TARGET_ARCH)
  HOST_COMPILER ?= $(TARGET_ARCH)-linux-gnu-gcc
  RUN ?= $(notdir $(firstword $(shell command -v qemu-$(TARGET_ARCH)-static qemu-$(TARGET_ARCH) 2>/dev/null) qemu-$(TARGET_ARCH)))
  LDFLAGS += -static
endif

ifneq ($(filter default undefined,$(origin CC)),)
  CC := $(patsubst %g++,%gcc,$(patsubst %clang++,%clang,$(HOST_COMPILER)))
endif
ifneq ($(filter default undefined,$(origin AR)),)
  AR := $(if $(filter $(TARGET_ARCH),$(HOST_ARCH)),ar,$(TARGET_ARCH)-linux-gnu-ar)
endif
PYTHON ?= python3

ifeq ($(CUDA),1)
  $(error CUDA=1 is reserved: this version has no CUDA backend)
endif

CFLAGS ?= -O3 -g
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla
INCLUDES := -I. -Isrc -Itests -Iexamples -Iexamples/video -Iexamples/moe_text
COMPILE = $(CC) -std=c11 $(WARNINGS) $(INCLUDES) $(CPPFLAGS) $(CFLAGS) $(SANITIZE:%=-fsanitize=% -fno-sanitize-recover=all -fno-omit-frame-pointer)
LINK = $(CC) $(CFLAGS) $(SANITIZE:%=-fsanitize=%) $(LDFLAGS)
LDLIBS := -lm -lpthread

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
TEST_C := $(wildcard tests/test_*.c)
TEST_SH := $(wildcard tests/test_*.sh)
TEST_PY := $(wildcard tests/test_*.py)
TEST_MODULES := $(filter-out $(TEST_C),$(wildcard tests/*.c))
BENCH_C := $(if $(wildcard bench/*.c),$(shell grep -l '^int main' bench/*.c))
BENCH_MODULES := $(filter-out $(BENCH_C),$(wildcard bench/*.c))

# TEST="test_gguf test_cli" runs only these.
ifdef TEST
  TESTS := $(filter $(foreach t,$(TEST),tests/$(t).c tests/$(t).sh tests/$(t).py),$(TEST_C) $(TEST_SH) $(TEST_PY))
  ifeq ($(TESTS),)
    $(error no test is named $(TEST))
  endif
else
  # Tests that start no thread: the thread sanitizer would only make them slow.
  THREADLESS := $(patsubst %,tests/test_%.c,conv_kernels demo_clip elementwise_kernels graph picture replay stream y4m)
  # Python tests read what the library writes; a cross or sanitized build adds nothing to them.
  TESTS := $(if $(filter thread,$(SANITIZE)),$(filter-out $(THREADLESS),$(TEST_C)),$(TEST_C)) $(TEST_SH) $(if $(SANITIZE)$(filter-out $(HOST_ARCH),$(TARGET_ARCH)),,$(TEST_PY))
endif

LIBRARY := $(BUILD)/libbrainstorm.a
PROGRAM_FILES := $(PROGRAMS:%=$(BUILD)/%)
TEST_FILES := $(patsubst tests/%.c,$(BUILD)/tests/%,$(filter %.c,$(TESTS)))
BENCH_FILES := $(BENCH_C:%.c=$(BUILD)/%)
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

.PHONY: all demo test test-build test-asan test-ubsan test-tsan test-aarch64 bench bench-preload amalgamate check size \
        install clean help FORCE

all: $(LIBRARY) $(PROGRAM_FILES)

help:
	@echo 'make              $(LIBRARY) and the example programs'
	@echo 'make demo         upscale a clip on this machine (CLIP=file.y4m)'
	@echo 'make test         all tests (TEST=test_gguf: one; AMALGAM=1: against brainstorm.c)'
	@echo 'make test-asan    the tests with address and undefined-behaviour sanitizers (also: test-ubsan)'
	@echo 'make test-tsan    the tests with the thread sanitizer'
	@echo 'make test-aarch64 the tests cross-built, under qemu'
	@echo 'make bench        benchmarks'
	@echo 'make bench-preload  weights streamed from storage (ARGS="--quick")'
	@echo 'make amalgamate   generate brainstorm.c from src/'
	@echo 'make check        brainstorm.c is what src/ gives; strict builds; symbols; installation'
	@echo 'make size         bytes of brainstorm.c at -Os'
	@echo 'make install      PREFIX=/usr/local DESTDIR='
	@echo 'make clean        remove $(BUILD_ROOT)/'

# --- how -------------------------------------------------------------------------------------------------

# V=1 shows the commands.
say = $(if $(V),,@echo '  CC $<' && )

# Rewritten only when compiler or flags change: then everything is built again.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(COMPILE) | $(LINK)' | cmp -s - $@ || echo '$(COMPILE) | $(LINK)' > $@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(say)$(COMPILE) -MMD -MP -c $< -o $@

# Lists of members: an archive is made again when a file appears in or vanishes from its folder.
archive = mkdir -p $(@D) && rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$(LIBRARY): $(call objects,$(LIBRARY_SOURCES)) $(BUILD)/members
	@$(archive)

# Modules of examples, tests and benchmarks; the linker takes from it what a program uses.
MODULES := $(BUILD)/libmodules.a
$(MODULES): $(call objects,$(EXAMPLE_MODULES) $(TEST_MODULES) $(BENCH_MODULES)) $(BUILD)/members
	@$(archive)

$(BUILD)/members: FORCE
	@mkdir -p $(@D)
	@echo '$(sort $(LIBRARY_SOURCES) $(EXAMPLE_MODULES) $(TEST_MODULES) $(BENCH_MODULES))' | cmp -s - $@ || \
	  echo '$(sort $(LIBRARY_SOURCES) $(EXAMPLE_MODULES) $(TEST_MODULES) $(BENCH_MODULES))' > $@

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

test:
	@$(MAKE) --no-print-directory -k test-build; built=$$?; \
	BUILT=$$built BUILD='$(BUILD)' RUN='$(RUN)' PYTHON='$(PYTHON)' TIMEOUT='$(TIMEOUT)' sh tests/run.sh $(TESTS)

# Slower by 2 (address), 10 (thread) and 20 (qemu): hence the seconds a test may take.
SANITIZED = CFLAGS='-O2 -g'
test-asan test-ubsan:
	@$(MAKE) --no-print-directory test BUILD='$(BUILD)/asan' SANITIZE=address,undefined TIMEOUT=600 $(SANITIZED)

test-tsan:
	@$(MAKE) --no-print-directory test BUILD='$(BUILD)/tsan' SANITIZE=thread TIMEOUT=900 $(SANITIZED)

test-aarch64:
	@$(MAKE) --no-print-directory test BUILD='$(BUILD)/aarch64' TARGET_ARCH=aarch64 TIMEOUT=1200

bench: $(BENCH_FILES) $(PROGRAM_FILES)
	@for program in $(filter-out %/preload,$(BENCH_FILES)); do echo "== $$program"; $(RUN) $$program || exit 1; done

# Some minutes by itself. Its scratch files lie in $TMPDIR, else in build/.
bench-preload: $(BUILD)/bench/preload
	@$(RUN) $< $(ARGS)

demo: all
	@BUILD='$(BUILD)' RUN='$(RUN)' CLIP='$(CLIP)' sh examples/demo.sh

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
	    -e 's|@VERSION@|$(VERSION)|' brainstorm.pc.in > $(BUILD)/brainstorm.pc
	install -m 644 $(BUILD)/brainstorm.pc '$(DESTDIR)$(LIBDIR)/pkgconfig/brainstorm.pc'
ifneq ($(filter brainstorm,$(PROGRAMS)),)
	install -d '$(DESTDIR)$(PREFIX)/bin'
	install -m 755 $(BUILD)/brainstorm '$(DESTDIR)$(PREFIX)/bin/brainstorm'
endif

clean:
	rm -rf $(BUILD_ROOT)
