/* tags: asan tsan shipped aarch64 32-bit */
/* test_stream_source.c: what a streamed read brings is the weight, whatever the source, the handle and the piece. What
 * fails or changes meanwhile: test_stream_reads.c.
 *
 * Relies on: streamed_file.h.
 */
#include "streamed_file.h"

static void test_file(const char *name)
{
    rig r;
    bs_model_facts facts;
    bs_model *model = open_file(rig_init(&r, AS_IS), name);
    bs_model_facts_get(model, &facts);
    printf("%s is read %s here, in multiples of %u\n", name, facts.direct ? "directly" : "through the cache",
           facts.fetch_alignment);
    check(all_same(model, 1 << 20), "streamed from a file: every weight of %s", name);
    check(all_same(model, 4096), "in pieces of 4096 bytes too");
    check(!facts.direct || (r.direct_reads > 0 && r.forgotten == 0), "direct reads go to the second handle");
    check(bs_model_weights(model).serial == 0, "several threads may read a file");
    bs_model_use_buffered(model);
    bs_model_facts_get(model, &facts);
    const int direct_reads = r.direct_reads;
    check(!facts.direct && facts.fetch_alignment == 1 && all_same(model, 1000),
          "buffered, in odd pieces: every weight of %s", name);
    check(r.direct_reads == direct_reads && r.forgotten > 0, "which go to the first handle, and are forgotten");
    check(bs_model_check(model, NULL) == BS_OK, "its records are sound, blocks without one too");
    bs_model_close(model);
    check(r.opened == 0 && r.refused == 0, "both handles are closed, no read was unaligned");
}

static void test_pretended(void)
{
    static const struct { const char *name; direct_kind kind; bool direct; uint32_t alignment; } tries[] = {
        {"direct reads of 512 bytes", PRETEND_512, true, 512},
        {"direct reads of 4096 bytes", PRETEND_4096, true, 4096},
        {"a platform without direct files", NO_DIRECT, false, 1},
        {"a direct open that fails", OPEN_FAILS, false, 1},
        {"a direct open that is buffered after all", BUFFERED_AFTER_ALL, false, 1},
        {"an alignment of 0", ALIGNMENT_0, false, 1},
        {"an alignment of 3", ALIGNMENT_3, false, 1},
        {"an alignment of 8192", ALIGNMENT_8192, false, 1},
        {"a second handle of another size", OTHER_SIZE, false, 1},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        rig r;
        bs_model_facts facts;
        bs_model *model = open_file(rig_init(&r, tries[i].kind), real_model);
        bs_model_facts_get(model, &facts);
        check(facts.direct == tries[i].direct && facts.fetch_alignment == tries[i].alignment && all_same(model, 12288),
              "%s: every weight", tries[i].name);
        const bool second = tries[i].direct || tries[i].kind == BUFFERED_AFTER_ALL;
        check(second == (r.direct_reads > 0) && (r.forgotten > 0) == !tries[i].direct, "from the handle that serves");
        bs_model_close(model);
        check(r.opened == 0 && r.refused == 0, "handles are closed, no read was unaligned");
    }
}

/* What opening needs without the probe is not enough for it: then reads are buffered. */
static void test_small_arena(void)
{
    rig r;
    bs_error error;
    bs_model_facts facts;
    bs_arena_init(&arena, "model", arena_memory, sizeof arena_memory);
    if (!bs_model_open_memory(&arena, tiny.bytes, tiny.n, &error))
        exit(2);
    const size_t enough = arena.high_water;
    bs_arena_init(&arena, "model", arena_memory, enough);
    bs_model *model = bs_model_open_file(&arena, rig_init(&r, PRETEND_512), path, &error);
    if (model)
        bs_model_facts_get(model, &facts);
    check(model && !facts.direct && all_same(model, 4096), "an arena without room for a probe: buffered (%zu bytes)",
          enough);
    bs_model_close(model);
    check(r.opened == 0, "and closed");
}

static int64_t read_forge(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    const forge *f = user;
    const size_t left = offset < f->n ? f->n - (size_t)offset : 0, n = bytes < left ? bytes : left;
    memcpy(buffer, f->bytes + offset, n);
    return (int64_t)n;
}

static void test_reader(void)
{
    static forge f;
    bs_error error;
    tiny_write(&f, PAGES);
    for (int32_t concurrent = 0; concurrent < 2; concurrent++) {
        const bs_reader reader = {.user = &f, .read = read_forge, .size = f.n, .concurrent = concurrent};
        bs_arena_init(&arena, "model", arena_memory, sizeof arena_memory);
        bs_model *model = bs_model_open_reader(&arena, &reader, &error);
        check(model && all_same(model, 777), "streamed from a reader: every weight");
        const bs_weights w = bs_model_weights(model);
        check(w.serial == !concurrent, "a reader is %s", concurrent ? "read by all at once" : "read by one at a time");
        f.n -= 4096;
        check(fetch_all(&w) == BS_ERROR_IO, "a reader that gives less than it had is an error");
        f.n += 4096;
        check(fetch_all(&w) == BS_OK, "and serves again afterwards");
    }
}

static void test_memory(void)
{
    bs_error error;
    tiny_write(&tiny, PAGES);
    bs_arena_init(&arena, "model", arena_memory, sizeof arena_memory);
    const bs_model *model = bs_model_open_memory(&arena, tiny.bytes, tiny.n, &error);
    check(model && all_same(model, 777), "streamed from memory: every weight");
    check(bs_model_weights(model).serial == 0, "by all at once");
}

static bool no_stream(const bs_weights *w)
{
    return !w->locate && !w->record && !w->fetch && !w->verify && w->fetch_alignment == 0 && w->serial == 0;
}

static void test_not_streamed(void)
{
    static const struct { extra more; const char *name, *why; } tries[] = {
        {OLD_VERSION, "a file of version 1", "version 1"}, {NOTHING, "a file aligned to 64", "64 bytes"}};
    static forge f;
    bs_error error;
    bs_model_facts facts;
    for (size_t i = 0; i < 2; i++) {
        tiny_write(&f, tries[i].more);
        bs_arena_init(&arena, "model", arena_memory, sizeof arena_memory);
        const bs_model *model = bs_model_open_memory(&arena, f.bytes, f.n, &error);
        const bs_weights w = bs_model_weights(model);
        bs_model_facts_get(model, &facts);
        check(no_stream(&w) && facts.fetch_alignment == 0 && !facts.direct, "%s cannot be streamed", tries[i].name);
        check(bs_model_can_stream(model, &error) == BS_ERROR_UNSUPPORTED && strstr(error.message, tries[i].why), "%s",
              error.message);
    }
    const bs_weights table = bs_weights_from_table(&(bs_tensor_table){NULL, 0});
    check(no_stream(&table), "nor can a table of arrays");
}

/* --- arguments --------------------------------------------------------------------------------------------- */

static void test_arguments(void)
{
    rig r;
    bs_record record;
    bs_model_block_facts block;
    bs_model *model = open_file(rig_init(&r, PRETEND_512), real_model);
    const bs_weights w = bs_model_weights(model);
    bs_model_facts facts;
    bs_model_facts_get(model, &facts);
    uint8_t *const m = record_memory;
    const uint64_t size = facts.file_bytes;
    check(w.fetch(w.user, 1, m, 512) == BS_ERROR_ARGUMENT && w.fetch(w.user, 0, m, 511) == BS_ERROR_ARGUMENT &&
              w.fetch(w.user, 0, m + 64, 512) == BS_ERROR_ARGUMENT,
          "offset, bytes and buffer that are not aligned are refused");
    check(w.fetch(w.user, size, m, 512) == BS_ERROR_ARGUMENT &&
              w.fetch(w.user, size - 512, m, 1024) == BS_ERROR_ARGUMENT &&
              w.fetch(w.user, UINT64_MAX - 511, m, 1024) == BS_ERROR_ARGUMENT,
          "so are reads beyond the end");
    check(r.direct_reads == 0 && r.refused == 0 && w.fetch(w.user, size - 512, m, 512) == BS_OK &&
              w.fetch(w.user, size, m, 0) == BS_OK,
          "the last bytes are not, nor are none behind them");
    check(w.record(w.user, -1, &record) == BS_ERROR_ARGUMENT &&
              w.record(w.user, facts.blocks, &record) == BS_ERROR_ARGUMENT &&
              w.verify(w.user, -1, m) == BS_ERROR_ARGUMENT && w.verify(w.user, facts.blocks, m) == BS_ERROR_ARGUMENT,
          "blocks that do not exist are refused");
    bs_weight_info info = {.handle = (uint64_t)facts.weights};
    int32_t of_block;
    uint64_t offset;
    check(w.locate(w.user, &info, &of_block, &offset) == BS_ERROR_ARGUMENT, "so are weights");
    for (int32_t b = 0; bs_model_block_get(model, b, &block) == BS_OK; b++)
        if (block.bytes == 0)
            check(w.record(w.user, b, &record) == BS_OK && record.bytes == 0 && record.head_bytes == 0 &&
                      w.verify(w.user, b, m) == BS_ERROR_ARGUMENT, "block %d has no weights, and says so", b);
    bs_model_close(model);
}

/* Behind the last whole block of a file there is less than a direct read asks for. */
static void test_ragged_end(void)
{
    static const direct_kind kinds[] = {AS_IS, PRETEND_512, PRETEND_4096};
    file_write_tiny(PAGES);
    forge_put(&tiny, "some bytes behind it all", 24);
    file_write(tiny.bytes, tiny.n);
    for (size_t i = 0; i < 3; i++) {
        rig r;
        bs_model *model = open_file(rig_init(&r, kinds[i]), path);
        const bs_weights w = bs_model_weights(model);
        const uint64_t at = tiny.n / 4096 * 4096 - 4096;
        const size_t bytes = w.fetch_alignment > 1 ? 4096 + w.fetch_alignment : tiny.n - (size_t)at;
        const bs_status status = w.fetch(w.user, at, record_memory, bytes);
        check(status == BS_OK && memcmp(record_memory, tiny.bytes + at, tiny.n - at) == 0,
              "a file's unaligned end is read");
        memset(record_memory, 0, 8192);
        memset(&script, 0, sizeof script);
        script.end_at = 1; /* some file systems refuse to go on from there, others give 0 bytes */
        const bs_status again = w.fetch(w.user, at, record_memory, bytes);
        check(again == BS_OK && memcmp(record_memory, tiny.bytes + at, tiny.n - at) == 0,
              "also where nothing can be read from there");
        memset(&script, 0, sizeof script);
        bs_model_close(model);
    }
}

/* --- threads ----------------------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 3 };

typedef struct job {
    const bs_weights *weights;
    uint8_t *memory;
    int32_t first, blocks, wrong;
} job;

static void job_run(void *argument)
{
    job *j = argument;
    bs_record record;
    for (int32_t i = 0; i < ROUNDS * j->blocks; i++)
        j->wrong += fetch_record(j->weights, (j->first + i) % j->blocks, j->memory, 16384, &record) != BS_OK;
}

static void test_threads(void)
{
    static _Alignas(4096) uint8_t memories[THREADS][RECORD_BYTES];
    static BS_ALIGNED uint8_t handles[THREADS][BS_THREAD_BYTES];
    const bs_platform *p = bs_platform_default();
    for (int buffered = 0; buffered < 2; buffered++) {
        bs_model *model = open_file(NULL, real_model);
        bs_model_facts facts;
        job jobs[THREADS];
        int wrong = 0;
        if (buffered)
            bs_model_use_buffered(model);
        bs_model_facts_get(model, &facts);
        const bs_weights w = bs_model_weights(model);
        for (int t = 0; t < THREADS; t++) {
            jobs[t] = (job){&w, memories[t], 2 * t, facts.blocks, 0};
            if (p->thread_start(p->user, handles[t], job_run, &jobs[t]) != 0)
                exit(2);
        }
        for (int t = 0; t < THREADS; t++) {
            p->thread_join(p->user, handles[t]);
            wrong += jobs[t].wrong;
        }
        check(wrong == 0, "%d threads read %d records each, %s", THREADS, ROUNDS * facts.blocks,
              buffered ? "buffered" : "as the file is opened");
        bs_model_close(model);
    }
}

static void test_folder(void)
{
    const bs_platform *p = bs_platform_default();
    uint64_t bytes = 0;
    check(p->file_open(p->user, "tests", &bytes) < 0, "a folder is not opened as a file");
}

int main(void)
{
    streamed_begin();
    test_file(real_model);
    test_file(path);
    test_pretended();
    test_small_arena();
    test_reader();
    test_memory();
    test_not_streamed();
    test_arguments();
    test_ragged_end();
    test_threads();
    test_folder();
    return streamed_end();
}
