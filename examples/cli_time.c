/* cli_time.c: see cli_time.h. */
#include "cli_time.h"

#include "cli_ops.h"
#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RING_BYTES = 1 << 22, ARENA_BYTES = 4096 };
static const size_t most_bytes = (size_t)1 << 30; /* of events; those behind it are lost, which is told */

struct cli_time {
    bs_profile *profile;
    uint8_t *events; /* the profile's file */
    size_t bytes, room;
    void *ring;
    uint64_t dropped;
    _Alignas(BS_ALIGNMENT) uint8_t memory[ARENA_BYTES];
};

/* --------------------------------------------------------------------------------------------------- recording */

static int keep(void *user, const void *data, size_t bytes)
{
    cli_time *t = user;
    size_t room = t->room ? t->room : 1 << 16;
    while (room < t->bytes + bytes && room < most_bytes)
        room *= 2;
    uint8_t *events = room < t->bytes + bytes ? NULL : room > t->room ? realloc(t->events, room) : t->events;
    if (!events)
        return -1;
    memcpy(events + t->bytes, data, bytes);
    t->events = events;
    t->room = room;
    t->bytes += bytes;
    return 0;
}

cli_time *cli_time_begin(bs_error *error)
{
    bs_arena arena;
    cli_time *t = aligned_alloc(BS_ALIGNMENT, (sizeof *t + BS_ALIGNMENT - 1) / BS_ALIGNMENT * BS_ALIGNMENT);
    void *ring = malloc(RING_BYTES);
    memset(error, 0, sizeof *error);
    error->status = BS_ERROR_ARENA;
    if (t && ring) {
        memset(t, 0, sizeof *t);
        t->ring = ring;
        const bs_profile_desc desc = {.write = keep, .user = t, .memory = ring, .bytes = RING_BYTES, .ops = 2};
        bs_arena_init(&arena, "profile", t->memory, sizeof t->memory);
        t->profile = bs_profile_create(&arena, &desc, error);
        if (t->profile)
            return t;
    }
    free(ring);
    free(t);
    return NULL;
}

bs_profile *cli_time_profile(cli_time *time) { return time->profile; }

void cli_time_end(cli_time *time)
{
    if (!time)
        return;
    bs_profile_close(time->profile, NULL);
    free(time->events);
    free(time->ring);
    free(time);
}

/* ---------------------------------------------------------------------------------------------------- printing */

static int64_t read_events(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const cli_time *t = user;
    const size_t left = offset < t->bytes ? t->bytes - (size_t)offset : 0;
    const size_t n = bytes < left ? bytes : left;
    memcpy(buffer, t->events + offset, n);
    return (int64_t)n;
}

bool cli_time_print(cli_time *time, const cli_time_facts *facts, bs_error *error)
{
    bs_arena arena;
    const cli_machine machine = {peak_gflops(facts->tier), peak_read_gbs(CLI_NEAR_BYTES), peak_read_gbs(CLI_FAR_BYTES),
                                 facts->threads};
    memset(error, 0, sizeof *error);
    error->status = bs_profile_close(time->profile, &time->dropped);
    time->profile = NULL;
    if (error->status != BS_OK && time->bytes == 0)
        return false;
    const size_t room = 2 * time->bytes + 16384; /* tables take no more than they do in the file, but for alignment */
    void *memory = malloc(room);
    bs_arena_init(&arena, "profile", memory, memory ? room : 0);
    const bs_reader source = {.user = time, .read = read_events, .size = time->bytes};
    bs_profile_reader *reader = bs_profile_open(&arena, &source, error);
    const bool good = reader && cli_ops_print(reader, &machine, facts->warm, facts->most, error);
    if (good && time->dropped)
        printf("  %llu events found no room and are not counted\n", (unsigned long long)time->dropped);
    free(memory);
    return good;
}
