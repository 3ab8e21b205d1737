# fuzz.mk - fuzzers: `make fuzz` runs them with libFuzzer, `make test` replays their corpus with any compiler.
#
# Owns: how tests/fuzz/ is built. Included by the Makefile, whose rules make the objects. The fuzzers, and the library
# for them, are built by a make of its own below build/fuzz: with clang, sanitizers and counters of edges.

FUZZERS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_CC ?= clang
# Comparisons are not traced: that takes most of the time in kernels, and mutators know the formats.
# Unsigned numbers wrap only where the source says so (BS_WRAPS).
FUZZ_COVERAGE := -fno-sanitize-coverage=trace-cmp
# -Os has fewer kernels, and is compiled in half of the time.
FUZZ_LEVEL ?= -O1 -g
SECONDS ?= 60
# The library is what is looked at: dice and edits of the fuzzers wrap wherever they like, and so do sums that tools
# print.
ifneq ($(findstring FUZZ_ENGINE,$(CPPFLAGS)),)
  MAY_WRAP := $(subst $(comma)unsigned-integer-overflow,,$(SANITIZE))
  $(PLAIN)/obj/tests/%.o $(PLAIN)/obj/examples/%.o: private override SANITIZE := $(MAY_WRAP)
endif

# A fuzzer with a main() that reads files.
$(BUILD)/fuzz/replay_%: $(PLAIN)/obj/tests/fuzz/fuzz_%.o $(PLAIN)/obj/tests/fuzz/replay.o \
  $(MODULES) $(LIBRARY) $(BUILD)/flags_link
	@$(link)

# With libFuzzer's main(): only in the build that fuzz-build makes.
$(BUILD)/fuzz_%: $(PLAIN)/obj/tests/fuzz/fuzz_%.o $(MODULES) $(LIBRARY) $(BUILD)/flags_link
	@$(link) -fsanitize=fuzzer

$(BUILD)/make_corpus $(BUILD)/fuzz/make_corpus: $(PLAIN)/obj/tests/fuzz/make_corpus.o \
  $(MODULES) $(LIBRARY) $(BUILD)/flags_link
	@$(link)

# What test_fuzz_corpus uses.
$(BUILD)/fuzz/replays: $(FUZZERS:%=$(BUILD)/fuzz/replay_%) $(BUILD)/fuzz/make_corpus
	@touch $@

.PHONY: fuzz fuzz-build fuzz-corpus fuzz-engines
fuzz-engines: $(FUZZERS:%=$(BUILD)/fuzz_%) $(BUILD)/make_corpus

fuzz-build:
	@$(MAKE) --no-print-directory fuzz-engines BUILD=$(BUILD_ROOT)/fuzz CC=$(FUZZ_CC) \
	  CPPFLAGS='-DFUZZ_ENGINE $(FUZZ_COVERAGE)' CFLAGS='$(FUZZ_LEVEL)' \
	  SANITIZE=fuzzer-no-link,address,undefined,float-cast-overflow,unsigned-integer-overflow

# FUZZ="model y4m": only these. JOBS at a time, SECONDS each.
fuzz: fuzz-build
	@BUILD=$(BUILD_ROOT)/fuzz SECONDS_EACH='$(SECONDS)' JOBS='$(JOBS)' sh tests/fuzz/run.sh $(or $(FUZZ),$(FUZZERS))

# The committed corpus, made anew: seeds and what is there already, as little of it as reaches as much.
fuzz-corpus: fuzz-build
	@BUILD=$(BUILD_ROOT)/fuzz sh tests/fuzz/corpus.sh $(or $(FUZZ),$(FUZZERS))
