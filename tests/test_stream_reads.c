/* tags: asan shipped aarch64 32-bit */
/* test_stream_reads.c: a streamed read that is cut, overwritten, interrupted or that fails is refused, or is the
 * weight.
 *
 * Relies on: streamed_file.h.
 */
#include "streamed_file.h"

/* --- what changes while it is open ------------------------------------------------------------------------- */

static const direct_kind changing[] = {AS_IS, PRETEND_4096, NO_DIRECT};

static void test_truncated(void)
{
    for (size_t i = 0; i < 3; i++) {
        rig r;
        file_write_tiny(PAGES);
        bs_model *model = open_file(rig_init(&r, changing[i]), path);
        const bs_weights w = bs_model_weights(model);
        const bs_status before = fetch_all(&w);
        int wrong = 0;
        for (size_t cut = 1; cut < 3 * 4096; cut += 509) { /* into each of the three records */
            if (truncate(path, (off_t)(tiny.n - cut)) != 0)
                exit(2);
            const bs_status status = fetch_all(&w);
            wrong += status != BS_ERROR_IO && (cut > 4096 - TINY_CONV_BYTES || status != BS_OK);
        }
        check(before == BS_OK && wrong == 0, "a file cut while it is open is an error (kind %d)", (int)changing[i]);
        file_write(tiny.bytes, tiny.n);
        check(fetch_all(&w) == BS_OK, "and is read again once it is whole");
        bs_model_close(model);
        check(r.opened == 0 && r.refused == 0, "and closed");
    }
}

static void test_overwritten(void)
{
    static forge other;
    tiny_write(&other, OTHER_WEIGHTS);
    for (size_t i = 0; i < 3; i++) {
        rig r;
        bs_record record;
        file_write_tiny(PAGES);
        bs_model *model = open_file(rig_init(&r, changing[i]), path);
        const bs_weights w = bs_model_weights(model);
        const bs_status before = fetch_all(&w);
        file_write(other.bytes, other.n);
        int refused = 0;
        for (int32_t b = 0; b < TINY_BLOCKS; b++)
            refused += fetch_record(&w, b, record_memory, 4096, &record) == BS_ERROR_FORMAT;
        check(before == BS_OK && other.n == tiny.n && refused == TINY_BLOCKS,
              "another model written over it is refused (kind %d)", (int)changing[i]);
        bs_error error;
        check(bs_model_check(model, &error) == BS_ERROR_FORMAT, "and named: %s", error.message);
        bs_model_close(model);
    }
}

/* Every bit of a head, and the head of every other block. */
static void test_heads(void)
{
    bs_error error;
    uint8_t head[256];
    bs_record record;
    int accepted = 0, crossed = 0;
    tiny_write(&tiny, PAGES);
    bs_arena_init(&arena, "model", arena_memory, sizeof arena_memory);
    const bs_model *model = bs_model_open_memory(&arena, tiny.bytes, tiny.n, &error);
    const bs_weights w = bs_model_weights(model);
    for (int32_t b = 0; b < TINY_BLOCKS; b++) {
        if (fetch_record(&w, b, record_memory, 4096, &record) != BS_OK)
            exit(2);
        memcpy(head, record_memory, sizeof head); /* the head alone: nothing behind it is looked at */
        for (size_t bit = 0; bit < 8 * sizeof head; bit++) {
            head[bit / 8] = (uint8_t)(head[bit / 8] ^ 1 << bit % 8);
            accepted += w.verify(w.user, b, head) != BS_ERROR_FORMAT;
            head[bit / 8] = (uint8_t)(head[bit / 8] ^ 1 << bit % 8);
        }
        for (int32_t c = 0; c < TINY_BLOCKS; c++)
            crossed += (w.verify(w.user, c, head) == BS_OK) != (b == c);
    }
    check(accepted == 0 && crossed == 0, "a head with any bit flipped, or of another block, is refused (%d, %d)",
          accepted, crossed);
}

/* --- interrupted, short and failing reads ------------------------------------------------------------------ */

#if defined(__linux__)
/* The first read of all is the probe, if there is one; the next begins the index. */
static void test_probe(int fail_at)
{
    bs_model_facts facts;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    memset(&script, 0, sizeof script);
    script.fail_at = fail_at;
    bs_arena_init(&arena, "model", arena_memory, sizeof arena_memory);
    bs_model *model = bs_model_open_file(&arena, NULL, real_model, &error);
    memset(&script, 0, sizeof script);
    if (!model) {
        check(error.status == BS_ERROR_IO && arena.used == 0, "a model whose index cannot be read does not open");
        return;
    }
    bs_model_facts_get(model, &facts);
    check(all_same(model, 8192) && facts.fetch_alignment != 512,
          "after a probe that fails a larger one is tried, or none (%u)", facts.fetch_alignment);
    bs_model_close(model);
}
#endif

static void test_interrupted(void)
{
#if defined(__linux__)
    static const char *const kinds[] = {"directly", "buffered"};
    for (int buffered = 0; buffered < 2; buffered++) {
        bs_model *model = open_file(NULL, real_model);
        if (buffered)
            bs_model_use_buffered(model);
        const bs_weights w = bs_model_weights(model);
        memset(&script, 0, sizeof script);
        script.interrupt = 3;
        script.shorten = 2;
        const bs_status status = fetch_all(&w);
        const int calls = script.calls;
        check(status == BS_OK && calls > 20, "interrupted and short reads go on, %s (%d reads)", kinds[buffered],
              calls);
        int wrong = 0;
        for (int n = 1; n <= calls; n++) { /* those that are interrupted do not come to fail */
            script.calls = 0;
            script.fail_at = n;
            wrong += fetch_all(&w) != (n % 3 ? BS_ERROR_IO : BS_OK);
        }
        check(wrong == 0, "a read that fails, at any point, is an error");
        memset(&script, 0, sizeof script);
        script.cut_at = script.end_at = 2;
        check(fetch_all(&w) == BS_ERROR_IO, "an end of the file that comes too early is one");
        memset(&script, 0, sizeof script);
        check(fetch_all(&w) == BS_OK, "and the next attempt succeeds");
        bs_model_close(model);
    }
    test_probe(1);
    test_probe(2);
    memset(&script, 0, sizeof script);
#endif
}

int main(void)
{
    streamed_begin();
    test_truncated();
    test_overwritten();
    test_heads();
    test_interrupted();
    return streamed_end();
}
