/* tags: asan */
/* test_video_open.c: a model is opened once, by the programs that take it by name: none is too large for a guess, and
 * one that is replaced meanwhile is either refused or used with memory of its own size.
 *
 * Owns: variants of the shipped models in memory, and a platform whose files they are. Shares no code with
 * src/model/gguf.c. Relies on: upscaler.h, text_model.h.
 */
#include "check.h"

#include "text_model.h"
#include "upscaler.h"

#include <stdbool.h>

enum { KEY_BYTES = 32, WIDTH = 96, HEIGHT = 80, ROWS = 4 };

typedef struct file {
    uint8_t *bytes;
    size_t n;
} file;

/* --- variants of a model ------------------------------------------------------------------------------------- */

static file file_read(const char *path)
{
    file f = {malloc(6 << 20), 0};
    FILE *from = fopen(path, "rb");
    f.n = from ? fread(f.bytes, 1, 6 << 20, from) : 0;
    if (!from || f.n == 0 || fclose(from) != 0) {
        printf("%s cannot be read\n", path);
        exit(1);
    }
    return f;
}

static uint64_t number(const file *f, size_t at, size_t bytes)
{
    uint64_t n = 0;
    memcpy(&n, f->bytes + at, bytes);
    return n;
}

/* Where the elements of an array are. */
static size_t array_of(const file *f, const char *key)
{
    const size_t length = strlen(key);
    for (size_t at = 24; at + length + 20 < f->n; at++)
        if (number(f, at, 8) == length && memcmp(f->bytes + at + 8, key, length) == 0)
            return at + 8 + length + 16;
    exit(2);
}

/* Parameter `index` of all nodes of that op. */
static file with_param(const file *like, const char *op, int index, int32_t value)
{
    file f = {malloc(like->n), like->n};
    memcpy(f.bytes, like->bytes, f.n);
    size_t name = array_of(&f, "brainstorm.node.op"), count = array_of(&f, "brainstorm.node.params.count");
    size_t param = array_of(&f, "brainstorm.node.params");
    const uint64_t nodes = number(&f, name - 8, 8);
    for (uint64_t i = 0; i < nodes; i++) {
        const size_t length = (size_t)number(&f, name, 8);
        if (length == strlen(op) && memcmp(f.bytes + name + 8, op, length) == 0)
            memcpy(f.bytes + param + 4 * (size_t)index, &value, 4);
        name += 8 + length;
        param += 4 * (size_t)number(&f, count + 4 * (size_t)i, 4);
    }
    return f;
}

/* With keys that nobody knows: an index of 64 bytes each. A multiple of 128 keys keeps what follows aligned. */
static file with_keys(const file *like, uint64_t keys)
{
    file f = {malloc(like->n + keys * KEY_BYTES), like->n + keys * KEY_BYTES};
    const uint64_t all = number(like, 16, 8) + keys;
    memcpy(f.bytes, like->bytes, 24);
    memcpy(f.bytes + 16, &all, 8);
    for (uint64_t i = 0; i < keys; i++) {
        uint8_t *const key = f.bytes + 24 + i * KEY_BYTES;
        char name[16];
        const uint64_t length = 12;
        const uint32_t u64 = 10;
        snprintf(name, sizeof name, "x.y%09u", (unsigned)i);
        memcpy(key, &length, 8);
        memcpy(key + 8, name, 12);
        memcpy(key + 20, &u64, 4);
        memcpy(key + 24, &i, 8);
    }
    memcpy(f.bytes + 24 + keys * KEY_BYTES, like->bytes + 24, like->n - 24);
    return f;
}

/* --- a platform where the file of every name is replaced ----------------------------------------------------- */

typedef struct disk {
    const file *files[2];
    int replaced; /* the first is there for so many openings */
    int opened, closed;
} disk;

static int64_t disk_open(void *user, const char *path, uint64_t *bytes)
{
    disk *d = user;
    (void)path;
    const int now = d->opened++ >= d->replaced;
    *bytes = d->files[now]->n;
    return now;
}

static int64_t disk_read(void *user, int64_t handle, uint64_t offset, void *buffer, size_t bytes)
{
    const file *f = ((disk *)user)->files[handle];
    const size_t left = offset < f->n ? f->n - (size_t)offset : 0, n = bytes < left ? bytes : left;
    memcpy(buffer, f->bytes + (offset < f->n ? offset : 0), n);
    return (int64_t)n;
}

static void disk_close(void *user, int64_t handle)
{
    (void)handle;
    ((disk *)user)->closed++;
}

static bs_platform platform_of(disk *d)
{
    bs_platform p = *bs_platform_default();
    p.user = d;
    p.file_open = disk_open;
    p.file_read = disk_read;
    p.file_close = disk_close;
    p.file_open_direct = NULL;
    return p;
}

/* --- what the programs make of it ---------------------------------------------------------------------------- */

typedef struct result {
    uint8_t bytes[4 * WIDTH * HEIGHT];
    char message[256];
} result;

/* A frame, twice its size. False: refused, and the message is there. */
static bool doubled(disk *d, result *r)
{
    static upscaler u;
    static uint8_t in[WIDTH * HEIGHT];
    const video_options o = {
        .model = "net.gguf", .route = ROUTE_AUTO, .threads = 1, .quality = 93, .reuse = true, .floor = -1};
    const bs_platform p = platform_of(d);
    const stream_tools tools = {.platform = &p};
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        in[i] = (uint8_t)(i % WIDTH < 40 ? 90 : i * i / 7);
    memset(r, 0, sizeof *r);
    const bool ok = upscaler_open_with(&u, &o, &tools, WIDTH, HEIGHT, 8) &&
                    upscaler_run(&u, in, WIDTH, r->bytes, 2 * WIDTH, true);
    memcpy(r->message, ok ? "" : u.error.message, ok ? 1 : sizeof r->message);
    upscaler_close(&u);
    return ok;
}

/* The logits behind four characters. */
static bool continued(disk *d, result *r)
{
    static text_model m;
    static const int32_t codes[ROWS] = {5, 17, 60, 1};
    const text_options o = {.model = "net.gguf", .prompt = "", .sequences = 1, .threads = 1};
    const bs_platform p = platform_of(d);
    const stream_tools tools = {.platform = &p};
    memset(r, 0, sizeof *r);
    const bool ok = text_model_open(&m, &o, ROWS, &tools) && text_model_run(&m, codes, ROWS);
    memcpy(r->bytes, m.logits, ok ? sizeof m.logits : 0);
    memcpy(r->message, ok ? "" : m.error.message, ok ? 1 : sizeof r->message);
    text_model_close(&m);
    return ok;
}

typedef bool program(disk *d, result *r);

static bool same(const result *a, const result *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* Replaced before the first opening, the second and so on: never a mixture of the two. */
static void replaced(const char *name, program *run, const file *before, const file *after)
{
    static result first, second, r;
    disk a = {{before, before}, 0, 0, 0}, b = {{after, after}, 0, 0, 0};
    check(run(&a, &first) && run(&b, &second), "%s: both files are taken %s%s", name, first.message, second.message);
    for (int openings = 1; openings < 4; openings++) {
        disk d = {{before, after}, openings, 0, 0};
        const bool ok = run(&d, &r);
        check(ok ? same(&r, &first) || same(&r, &second) : r.message[0] != 0, "%s, replaced after %d openings: %s",
              name, openings, ok ? "taken" : r.message);
        check(d.opened == d.closed && d.opened <= 2, "... opened for its size, and once for all else (%d)", d.opened);
    }
}

static void large_index(const char *name, program *run, const file *model)
{
    static result plain, large;
    const file keys = with_keys(model, 128 * 640);
    disk a = {{model, model}, 0, 0, 0}, b = {{&keys, &keys}, 0, 0, 0};
    check(run(&a, &plain) && run(&b, &large) && same(&plain, &large), "%s: an index of 4.5 MiB %s", name,
          large.message);
    replaced(name, run, model, &keys);
    replaced(name, run, &keys, model);
    free(keys.bytes);
}

int main(void)
{
    const file video = file_read("models/sr2x_video.gguf"), text = file_read("models/moe_text.gguf");
    const file small_tiles = with_param(&video, "patches", 0, 16), long_caches = with_param(&text, "state", 3, 8192);
    large_index("video_sr", doubled, &video);
    large_index("moe_text", continued, &text);
    replaced("video_sr, by larger tiles", doubled, &small_tiles, &video);
    replaced("moe_text, by longer caches", continued, &text, &long_caches);
    replaced("moe_text, by shorter ones", continued, &long_caches, &text);
    free(video.bytes);
    free(text.bytes);
    free(small_tiles.bytes);
    free(long_caches.bytes);
    return check_end();
}
