# bare.mk - examples/bare: a board without an operating system, and the workstation that says what it must come to.
#
# Owns: flags, and what is written into the board's flash. `make bare` builds and runs all of it under qemu
# (tests/test_bare.sh); bare-board, of a build with TARGET_ARCH=aarch64, only builds. The board has the library as users
# copy it; the workstation is an ordinary program, of the same processor so that its kernels are the same.

BARE := $(BUILD)/bare
BARE_MODEL := models/moe_text.gguf
# What the board does without, and the ops of its network (`brainstorm inspect` names them): the bytes of
# all else stay out of its flash.
BARE_OPS := add attention constant gather_rows layer_norm linear look_ahead reshape segment_reduce segments softmax \
  state_append
BARE_DEFINES := -DBS_NO_POSIX -DBS_NO_PLANNER -DBS_NO_PROFILE -DBS_NO_REPLAY -DBS_NO_REPORT -DBS_NO_MESSAGES \
  -DBS_NO_WINOGRAD -DBS_ONLY_OPS $(BARE_OPS:%=-DBS_OP_%)

# -fbuiltin: sqrtf is an instruction. No loop of libc.c becomes a call of the function that it is in.
BARE_COMPILE = $(CC) -std=c11 $(WARNINGS) -I. -Iexamples -I$(BARE) -ffreestanding -fno-pie -fno-stack-protector \
  -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections -mno-outline-atomics -MMD -MP
BARE_LIBRARY_FLAGS := -Os -fbuiltin $(BARE_DEFINES)
BARE_BOARD_FLAGS := -O2 -fno-tree-loop-distribute-patterns $(BARE_DEFINES)

BARE_SOURCES := $(wildcard examples/bare/board/*.c) examples/bare/story.c examples/moe_text/text_sample.c
BARE_OBJECTS := $(BARE)/brainstorm.o $(BARE)/start.o $(BARE_SOURCES:%.c=$(BARE)/%.o)

.PHONY: bare bare-board
bare:
	@$(MAKE) --no-print-directory test TEST=test_bare SECONDS_EACH=900

bare-board: $(BARE)/flash0.img $(BARE)/flash1.img

# Bytes of the board's arenas, and the sum; beside it the plan and the text.
$(BARE)/expected.h: $(BUILD)/bare_workstation $(BARE_MODEL)
	@mkdir -p $(@D)
	@$(RUN) $< $(BARE_MODEL) $(BARE)/plan.image > $@.new 2> $(BARE)/expected.txt
	@mv $@.new $@

$(BARE)/brainstorm.o: brainstorm.c $(PLAIN)/flags tools/bare.mk
	@mkdir -p $(@D)
	$(say)$(BARE_COMPILE) $(BARE_LIBRARY_FLAGS) -c $< -o $@

$(BARE)/start.o: examples/bare/board/start.S $(BARE)/expected.h tools/bare.mk
	$(say)$(CC) -I$(BARE) -c $< -o $@

$(BARE)/%.o: %.c $(BARE)/expected.h tools/bare.mk
	@mkdir -p $(@D)
	$(say)$(BARE_COMPILE) $(BARE_BOARD_FLAGS) -c $< -o $@

# Of the C library only functions of <math.h>.
$(BARE)/board.elf: examples/bare/board/board.ld $(BARE_OBJECTS)
	@$(CC) -nostdlib -static -no-pie -Wl,-T,$< -Wl,--gc-sections,--build-id=none,--fatal-warnings \
	  $(BARE_OBJECTS) -lm -lgcc -o $@

# A bank is 64 MB to QEMU, nearly all of it a hole in the file.
BARE_BANK := 67108864
$(BARE)/flash0.img: $(BARE)/board.elf
	@$(CC:%gcc=%objcopy) -O binary $< $@.new && truncate -s $(BARE_BANK) $@.new && mv $@.new $@

$(BARE)/flash1.img: $(BARE_MODEL)
	@mkdir -p $(@D)
	@cp $< $@.new && truncate -s $(BARE_BANK) $@.new && mv $@.new $@

-include $(BARE_OBJECTS:.o=.d)
