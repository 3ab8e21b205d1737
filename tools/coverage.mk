# coverage.mk - the build that `make coverage` measures (COVERAGE=1). Owns its flags.
#
# gcc counts branches as they are written only without optimization. What is not counted is built as ever, for its
# speed: kernels, whose branches follow sizes and are tested by sweeps over those, and the tests.

COVERAGE_FLAGS := -O0 -g --coverage -fprofile-update=atomic

ifeq ($(COVERAGE),1)
  CFLAGS := $(COVERAGE_FLAGS)
  DEFAULT_FLAGS := # parts, not units
  UNCOUNTED := $(foreach d,src/kernels tests bench examples,$(BUILD)/obj/$(d)/%.o)
  # private: flags of a file, not of $(PLAIN)/flags, on which it depends
  $(UNCOUNTED): private CFLAGS := -O2 -g
endif
