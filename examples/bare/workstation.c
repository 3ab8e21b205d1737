/* bare_workstation MODEL IMAGE: the story of the board on a machine that has files, threads and an allocator.
 *
 * Writes the plan to IMAGE, and prints the header that the board is built with: how many bytes its arenas need, and the
 * sum that it must come to. The text goes to standard error. Owns: the memory of planning. Relies on: story.h. Must
 * never: be told the sum.
 */
#include "settings.h"
#include "story.h"

#include <stdio.h>
#include <stdlib.h>

/* The plan of any model that a board can hold. What they took of it is the board's figure. */
#define PLANNING_BYTES ((size_t)64 << 20)

static bool lend(bs_arena *arena, const char *name, uint64_t bytes)
{
    void *memory = aligned_alloc(BS_ALIGNMENT, ((size_t)bytes + BS_ALIGNMENT) / BS_ALIGNMENT * BS_ALIGNMENT);
    bs_arena_init(arena, name, memory, memory ? (size_t)bytes : 0);
    return memory != NULL;
}

static bool lend_all(bs_memory *memory, const bs_sizes *sizes)
{
    return lend(&memory->persistent, "persistent", sizes->persistent) &&
           lend(&memory->transient, "transient", sizes->transient) &&
           lend(&memory->staging, "staging", sizes->staging) && lend(&memory->slots, "slots", sizes->slots);
}

static void free_all(bs_memory *memory, bs_arena *planning)
{
    free(memory->persistent.base);
    free(memory->transient.base);
    free(memory->staging.base);
    free(memory->slots.base);
    free(planning->base);
}

/* The image of the plan, to be freed. */
static void *make_image(story *s, bs_arena *planning, const bs_graph *graph, size_t *bytes)
{
    const bs_plan_desc desc = {.tier = TIER, .slot_bytes = SLOT_BYTES, .chunk_bytes = CHUNK_BYTES, .lanes = LANES};
    const size_t mark = planning->used;
    const bs_plan *plan = bs_plan_create(planning, NULL, graph, &desc, &s->error);
    void *image = NULL;
    if (plan) {
        *bytes = bs_plan_image_bytes(plan);
        image = aligned_alloc(BS_ALIGNMENT, (*bytes + BS_ALIGNMENT - 1) / BS_ALIGNMENT * BS_ALIGNMENT);
    }
    if (image && bs_plan_save(plan, image, *bytes, &s->error) != BS_OK) {
        free(image);
        image = NULL;
    }
    planning->used = mark;
    return image;
}

static bool write_image(const void *image, size_t bytes, const char *path)
{
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(image, 1, bytes, file) == bytes;
    if (file && fclose(file) != 0)
        written = false;
    if (!written)
        fprintf(stderr, "bare_workstation: %s cannot be written\n", path);
    return written;
}

/* Opens the plan as the board does: what is not kept lies where weights will. After that `planning` has taken what the
 * board takes. */
static bool open_plan(story *s, bs_arena *planning, const bs_model *model, const char *path, void **image)
{
    size_t bytes = 0;
    bs_arena opening;
    const bs_graph *graph = lend(&opening, "opening", SLOT_BYTES) ? story_graph(s, &opening, model) : NULL;
    *image = graph ? make_image(s, planning, graph, &bytes) : NULL;
    if (*image && write_image(*image, bytes, path))
        s->plan = bs_plan_open(planning, &opening, graph, *image, bytes, &s->error);
    free(opening.base);
    return s->plan != NULL;
}

static void print_header(const story *s, const bs_model *model, size_t board_bytes, const bs_sizes *sizes)
{
    bs_model_facts facts;
    bs_model_facts_get(model, &facts);
    printf("#define MODEL_BYTES %llu\n", (unsigned long long)facts.file_bytes);
    printf("#define PERSISTENT_BYTES %llu\n", (unsigned long long)(board_bytes + sizes->persistent));
    printf("#define TRANSIENT_BYTES %llu\n", (unsigned long long)sizes->transient);
    printf("#define STAGING_BYTES %llu\n", (unsigned long long)sizes->staging);
    printf("#define SLOTS_BYTES %llu\n", (unsigned long long)sizes->slots);
    printf("#define EXPECTED_SUM 0x%016llxu\n", (unsigned long long)s->sum);
}

static bool write_story(story *s)
{
    for (int i = 0; i < STORY_CHARACTERS; i++) {
        const char c = story_next(s);
        if (c == 0)
            return false;
        fputc(c, stderr);
    }
    return true;
}

int main(int argc, char **argv)
{
    story s = {0};
    bs_sizes sizes = {0};
    bs_memory memory = {0};
    bs_arena planning = {0};
    bs_model *model = NULL;
    void *image = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: bare_workstation MODEL IMAGE\n");
        return 2;
    }
    bool done = lend(&planning, "planning", PLANNING_BYTES);
    if (done)
        model = bs_model_open_file(&planning, NULL, argv[1], &s.error);
    done = model && open_plan(&s, &planning, model, argv[2], &image);
    if (done)
        bs_plan_sizes(s.plan, &sizes);
    done = done && lend_all(&memory, &sizes) && story_open(&s, &memory, model, NULL) && write_story(&s);
    if (done)
        print_header(&s, model, planning.used, &sizes);
    else
        fprintf(stderr, "bare_workstation: %s\n", s.error.status ? s.error.message : "failed");
    story_close(&s);
    bs_model_close(model);
    free_all(&memory, &planning);
    free(image);
    return done ? 0 : 1;
}
