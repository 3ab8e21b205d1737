/* board.c: the story on the board: arenas in static memory, the model in flash, experts that come and go.
 *
 * Owns: the memory. Relies on: story.h, what is in this folder, and what the workstation wrote: expected.h and the
 * plan, which start.S puts into flash. Must never: end with 0 unless all logits are the workstation's, bit by bit.
 */
#include "expected.h"
#include "flash.h"
#include "machine.h"
#include "scheduler.h"
#include "bare/settings.h"
#include "bare/story.h"

#define MODEL_BASE 0x04000000 /* the second bank of flash */

BS_ALIGNED static uint8_t persistent[PERSISTENT_BYTES], transient[TRANSIENT_BYTES], staging[STAGING_BYTES],
    slots[SLOTS_BYTES];

static bs_memory memory;
static story tale;
static flash bank = {(const uint8_t *)MODEL_BASE, MODEL_BYTES, 0, 0, 0};

extern const uint8_t plan_image[]; /* start.S */
extern const uint64_t plan_image_bytes;

static bool fail(const char *what)
{
    console_print("%s: %s\n", what, tale.error.message[0] ? tale.error.message : bs_status_text(tale.error.status));
    return false;
}

static void print_arena(const bs_arena *arena)
{
    console_print("arena    %-10s %8llu bytes, %llu used\n", arena->name, (unsigned long long)arena->size,
                  (unsigned long long)arena->high_water);
}

/* The graph is built where experts come to lie later: the plan keeps what it needs of it. */
static bs_model *open_all(void)
{
    const bs_reader reader = flash_reader(&bank);
    bs_arena opening;
    bs_arena_init(&opening, "opening", slots, sizeof slots);
    bs_model *model = bs_model_open_reader(&memory.persistent, &reader, &tale.error);
    const bs_graph *graph = model ? story_graph(&tale, &opening, model) : NULL;
    if (graph)
        tale.plan = bs_plan_open(&memory.persistent, &opening, graph, plan_image, (size_t)plan_image_bytes,
                                 &tale.error);
    if (!tale.plan || !story_open(&tale, &memory, model, scheduler_platform())) {
        fail("opening");
        bs_model_close(model);
        return NULL;
    }
    return model;
}

static bool write_text(void)
{
    for (int i = 0; i < STORY_CHARACTERS; i++) {
        const char c = story_next(&tale);
        if (c == 0)
            return fail("running");
        console_put(c);
    }
    console_put('\n');
    return true;
}

static void print_run(uint64_t ticks, const flash *before)
{
    bs_stream_stats stats;
    bs_session_stream_stats(tale.session, &stats);
    console_print("run      %llu ticks of %llu a second\n", (unsigned long long)ticks,
                  (unsigned long long)machine_frequency());
    console_print("flash    %llu reads of %llu bytes in all; %llu reads of %llu bytes before the first run\n",
                  (unsigned long long)bank.reads, (unsigned long long)bank.bytes, (unsigned long long)before->reads,
                  (unsigned long long)before->bytes);
    console_print("experts  %llu there, %llu on their way, %llu missed; %llu guessed, %llu of them used\n",
                  (unsigned long long)stats.hits, (unsigned long long)stats.late, (unsigned long long)stats.misses,
                  (unsigned long long)stats.guessed_loads, (unsigned long long)stats.useful_guesses);
    console_print("stood    %llu us still for flash, which was read for %llu us\n",
                  (unsigned long long)stats.stall_ns / 1000, (unsigned long long)stats.read_ns / 1000);
}

static bool sum_is_right(void)
{
    console_print("sum      %016llx of all logits, %016llx on the workstation\n", (unsigned long long)tale.sum,
                  (unsigned long long)EXPECTED_SUM);
    return tale.sum == EXPECTED_SUM;
}

int main(void)
{
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    bs_arena_init(&memory.slots, "slots", slots, sizeof slots);
    bs_model *model = open_all();
    if (!model)
        return 1;
    print_arena(&memory.persistent);
    print_arena(&memory.transient);
    print_arena(&memory.staging);
    print_arena(&memory.slots);
    const flash before = bank;
    const uint64_t start = machine_ticks();
    bool right = write_text();
    if (right) {
        print_run(machine_ticks() - start, &before);
        right = sum_is_right();
    }
    story_close(&tale);
    bs_model_close(model);
    console_print("stacks   %u bytes of main's used, %u and %u of the readers'\n", (unsigned)scheduler_stack_used(0),
                  (unsigned)scheduler_stack_used(1), (unsigned)scheduler_stack_used(2));
    return right ? 0 : 1;
}
