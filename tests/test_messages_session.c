/* tags: asan tsan */
/* Promises: whatever keeps a session from being made, or its weights from being read, is said in one line that names
 * the op, weight, block, arena or thread at fault and what was expected; and this table knows every message of the
 * files that make sessions and stream weights.
 *
 * Relies on: session_told.h; a source of weights and a platform of its own, which lie when they are told to. */
#include "ops/table.h"
#include "run/session.h"
#include "session_told.h"

/* ---------------------------------------------------------------------------------------------------- weights */

/* One linear of a block, in storage: a head of 64 bytes, 256 of weights, 32 of bias. */
typedef enum lie {
    HONEST,
    MISSING,
    LOST,
    BEYOND,
    TWO_RECORDS,
    OVER_EACH_OTHER,
    NO_RECORD,
    SHORT_RECORD,
    FAR_APART,
    MORE_IN_RECORD,
    FAILS,
    ANOTHER_HEAD,
    LIES
} lie;
static lie told;

static bs_status store_find(const void *user, const char *name, bs_weight_info *info)
{
    (void)user;
    const bool bias = strcmp(name, "L.bias") == 0;
    if (told == MISSING)
        return BS_ERROR_WEIGHTS;
    *info = (bs_weight_info){
        .dtype = BS_F32, .rank = bias ? 1 : 2, .dim = {8, bias ? 0 : 8}, .bytes = bias ? 32 : 256, .handle = bias};
    return BS_OK;
}

static bs_status store_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user, (void)info, (void)offset;
    memset(buffer, 0, bytes);
    return BS_OK;
}

static bs_status store_locate(const void *user, const bs_weight_info *info, int32_t *block, uint64_t *offset)
{
    (void)user;
    *block = 1 + (told == TWO_RECORDS && info->handle);
    *offset = info->handle ? (told == FAR_APART ? 1 << 20 : told == OVER_EACH_OTHER ? 319 : 320) : 64;
    if (told == BEYOND)
        *offset = UINT64_MAX - 8;
    return told == LOST ? BS_ERROR_FORMAT : BS_OK;
}

static bs_status store_record(const void *user, int32_t block, bs_record *record)
{
    (void)user, (void)block;
    *record = (bs_record){0,
                          told == FAR_APART        ? (1 << 20) + 32
                          : told == SHORT_RECORD   ? 351
                          : told == MORE_IN_RECORD ? 416
                                                   : 352,
                          64, 0};
    return told == NO_RECORD ? BS_ERROR_ARGUMENT : BS_OK;
}

static bs_status store_fetch(const void *user, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user, (void)offset;
    memset(buffer, 0, bytes);
    return told == FAILS ? BS_ERROR_IO : BS_OK;
}

static bs_status store_verify(const void *user, int32_t block, const void *head)
{
    (void)user, (void)block, (void)head;
    return told == ANOTHER_HEAD ? BS_ERROR_FORMAT : BS_OK;
}

static const bs_session_desc honest = {.weights = {.find = store_find,
                                                   .read = store_read,
                                                   .locate = store_locate,
                                                   .record = store_record,
                                                   .fetch = store_fetch,
                                                   .verify = store_verify,
                                                   .fetch_alignment = 1}};

static const bs_graph *expert(void)
{
    bs_graph *g = new_graph();
    const bs_value x = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(4, 8)), none);
    bs_block_begin(g, "expert");
    const bs_value y = bs_linear(g, x, &(bs_linear_desc){.name = "L", .out = 8});
    bs_block_end(g);
    bs_output(g, "out", bs_collect(g, y));
    return g;
}

static void not_made(const bs_session_desc *desc, bs_status status, const char *text)
{
    if (made(desc))
        check(0, "no session is made: %s", text);
    message_is(&error, status, text);
    end();
}

static void test_resident(void)
{
    bs_session_desc nothing = {.platform = NULL};
    if (!planned(expert(), NULL))
        return;
    not_made(&nothing, BS_ERROR_WEIGHTS, "linear \"L\" needs weights and the session was given none");
    for (int32_t tier = BS_TIER_SCALAR; tier <= BS_TIER_NEON; tier++)
        if (!bs_tier_available((bs_tier)tier) && planned(expert(), &(bs_plan_desc){.tier = tier})) {
            char text[100];
            snprintf(text, sizeof text, "the plan is for tier %s, which this machine does not have",
                     bs_tier_name((bs_tier)tier));
            not_made(&honest, BS_ERROR_UNSUPPORTED, text);
        }
    if (planned(expert(), &(bs_plan_desc){.tier = BS_TIER_CUDA}))
        not_made(&honest, BS_ERROR_UNSUPPORTED,
                 "the plan is for a GPU: bs_session_desc.device is NULL (bs_cuda_open gives it)");
}

/* Weights that lie where no plan can read them. */
static void test_places(void)
{
    static const struct { lie lie; bs_status status; const char *text;
    } rows[] = {
        {MISSING, BS_ERROR_WEIGHTS, "weight \"L.weight\" is missing"},
        {LOST, BS_ERROR_FORMAT, "weight \"L.weight\": the source does not tell its place in storage"},
        {BEYOND, BS_ERROR_FORMAT, "weight \"L.weight\": the source does not tell its place in storage"},
        {TWO_RECORDS, BS_ERROR_UNSUPPORTED, "linear \"L\": its weights lie in two records and cannot be streamed"},
        {OVER_EACH_OTHER, BS_ERROR_FORMAT, "linear \"L\": its weights lie over each other in storage"},
        {NO_RECORD, BS_ERROR_FORMAT, "linear \"L\": its weights do not lie in the record of block 1"},
        {SHORT_RECORD, BS_ERROR_FORMAT, "linear \"L\": its weights do not lie in the record of block 1"},
        {FAR_APART, BS_ERROR_UNSUPPORTED, "linear \"L\": its weights lie too far apart to be streamed"},
        {MORE_IN_RECORD, BS_ERROR_UNSUPPORTED,
         "check_records: the record of block 1 cannot be checked as it is read, this plan leaves out some of its "
         "weights"},
    };
    bs_session_desc desc = honest;
    desc.stream.check_records = 1;
    if (!planned(expert(), &(bs_plan_desc){.slot_bytes = 1 << 16}))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        told = rows[i].lie;
        not_made(&desc, rows[i].status, rows[i].text);
    }
    told = HONEST;
}

/* Sources that cannot be streamed from, and choices that there are not. */
static void test_stream_descs(void)
{
    static const uint32_t alignments[3] = {0, 24, 8192};
    bs_session_desc desc;
    if (!planned(expert(), &(bs_plan_desc){.slot_bytes = 1 << 16}))
        return;
    for (int32_t i = 0; i < 6; i++) {
        desc = honest;
        if (i < 3)
            desc.weights.fetch_alignment = alignments[i];
        desc.weights.locate = i == 3 ? NULL : desc.weights.locate;
        desc.weights.record = i == 4 ? NULL : desc.weights.record;
        desc.weights.fetch = i == 5 ? NULL : desc.weights.fetch;
        not_made(
            &desc, BS_ERROR_UNSUPPORTED,
            "the plan streams weights: bs_session_desc.weights needs locate, record, fetch and its alignment, a power "
            "of two up to 4096");
    }
    desc = honest;
    desc.stream.policy = BS_POLICY_BELADY;
    not_made(&desc, BS_ERROR_ARGUMENT, "bs_session_desc.stream: policy 3, speculation 0, expected 0 .. 2 and 0 .. 1");
    desc.stream = (bs_stream_desc){.policy = -1};
    not_made(&desc, BS_ERROR_ARGUMENT, "bs_session_desc.stream: policy -1, speculation 0, expected 0 .. 2 and 0 .. 1");
    desc.stream = (bs_stream_desc){.speculation = -1};
    not_made(&desc, BS_ERROR_ARGUMENT, "bs_session_desc.stream: policy 0, speculation -1, expected 0 .. 2 and 0 .. 1");
    desc.stream = (bs_stream_desc){.speculation = 2};
    not_made(&desc, BS_ERROR_ARGUMENT, "bs_session_desc.stream: policy 0, speculation 2, expected 0 .. 2 and 0 .. 1");
}

/* What fails when it is read. */
static void test_streamed(void)
{
    if (!planned(expert(), &(bs_plan_desc){.slot_bytes = 1 << 16}))
        return;
    for (lie l = FAILS; l < LIES; l++) {
        if (!check(made(&honest), "a session whose storage fails later %s", error.message))
            return;
        told = l;
        bind("in", floats[0], BS_F32, 2, 4, 8, 0);
        bind("out", floats[1], BS_F32, 2, 4, 8, 0);
        if (l == FAILS)
            refused(BS_ERROR_IO, "linear \"L\" (node 3): reading or writing failed");
        else
            refused(BS_ERROR_FORMAT, "linear \"L\" (node 3): the file is malformed");
        end();
        told = HONEST;
    }
}

/* --------------------------------------------------------------------------------------------- memory and threads */

/* With `kept` bytes of one arena less than a session takes. */
static void test_arenas(void)
{
    static const char *const what[4] = {"persistent: the session", "transient: activations", "staging: reading weights",
                                        "slots: weights of blocks"};
    bs_arena *const all[4] = {&memory.persistent, &memory.transient, &memory.staging, &memory.slots};
    bs_sizes sizes;
    if (!planned(expert(), &(bs_plan_desc){.slot_bytes = 1 << 16}))
        return;
    bs_plan_sizes(plan, &sizes);
    const uint64_t bytes[4] = {sizes.persistent, sizes.transient, sizes.staging, sizes.slots};
    for (int32_t i = 0; i < 4; i++) {
        char text[160];
        arenas_init();
        bs_arena_init(all[i], all[i]->name, all[i]->base, (size_t)bytes[i] - 64);
        forget();
        bs_session_create(&memory, plan, &honest, &error);
        snprintf(text, sizeof text, "arena %s needs %llu bytes, %llu are free", what[i], (unsigned long long)bytes[i],
                 (unsigned long long)bytes[i] - 64);
        message_is(&error, BS_ERROR_ARENA, text);
    }
}

static int calls, fail_at;

static int start_some(void *user, void *handle, void (*entry)(void *), void *argument)
{
    const bs_platform *real = bs_platform_default();
    (void)user;
    return ++calls == fail_at ? -1 : real->thread_start(real->user, handle, entry, argument);
}

static int make_some(void *user, void *storage)
{
    const bs_platform *real = bs_platform_default();
    (void)user;
    return ++calls == fail_at ? -1 : real->gate_init(real->user, storage);
}

static void test_platform(void)
{
    static const char *const texts[5] = {
        "worker threads: the platform's gate_init failed", "worker thread 1 of 1: the platform's thread_start failed",
        "reader threads: the platform's gate_init failed", "reader thread 1 of 2: the platform's thread_start failed",
        "reader thread 2 of 2: the platform's thread_start failed"};
    bs_platform platform = *bs_platform_default();
    bs_session_desc desc = honest;
    platform.thread_start = start_some;
    platform.gate_init = make_some;
    desc.platform = &platform;
    if (!planned(expert(), &(bs_plan_desc){.slot_bytes = 1 << 16, .threads = 2, .lanes = 2}))
        return;
    for (fail_at = 1; fail_at <= 5; fail_at++) {
        calls = 0;
        not_made(&desc, BS_ERROR_PLATFORM, texts[fail_at - 1]);
    }
}

static int profile_write(void *user, const void *data, size_t bytes)
{
    (void)user, (void)data, (void)bytes;
    return 0;
}

static void test_profile(void)
{
    static _Alignas(64) uint8_t ring[1 << 14], place[1 << 12];
    const bs_profile_desc desc = {.write = profile_write, .memory = ring, .bytes = sizeof ring};
    bs_session_desc with = honest;
    bs_arena arena;
    bs_arena_init(&arena, "place", place, sizeof place);
    with.profile = bs_profile_create(&arena, &desc, &error);
    if (!planned(expert(), NULL) || !check(made(&with), "a session with a profile %s", error.message))
        return;
    end();
    not_made(&with, BS_ERROR_ARGUMENT, "bs_session_desc.profile: another session uses it");
    bs_profile_close(with.profile, NULL);
}

/* Weights of a session that never was: only its plan and its device are looked at. */
static void test_weights_of(void)
{
    static bs_session other;
    static uint64_t no_device;
    bs_session_desc of = honest;
    of.weights_of = &other;
    if (!planned(expert(), NULL))
        return;
    other.plan = NULL;
    not_made(&of, BS_ERROR_ARGUMENT, "bs_session_desc.weights_of: a session of another plan");
    other.plan = plan;
    other.device = (bs_device *)(void *)&no_device;
    not_made(&of, BS_ERROR_ARGUMENT, "bs_session_desc.weights_of: a session on another device");
}

static void test_calls(void)
{
    bs_session_create(NULL, plan, &honest, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "bs_session_create: memory or plan is NULL");
    bs_cuda_choose(NULL, 1, NULL, NULL, &error);
    message_is(&error, BS_ERROR_UNSUPPORTED, "bs_cuda_choose: the session must be on a GPU, with its weights resident");
}

int main(void)
{
    static const char *const files[] = {"src/run/session_make.c", "src/run/launch_mode.c", "src/stream/store.c",
                                        "src/stream/store_plan.c", "src/base/workers.c"};
    test_resident();
    test_places();
    test_stream_descs();
    test_streamed();
    test_arenas();
    test_platform();
    test_profile();
    test_weights_of();
    test_calls();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        messages_of(files[i]);
    return check_end();
}
