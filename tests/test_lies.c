/* tags: unsigned */
/* test_lies.c: a model file whose numbers, names or types are not true is refused, and what is wrong is named.
 *
 * Owns: for every number of a sound file all the values that tend to break readers, for every key its absence, its
 *   double and every other type, for every string what is not a name. The few lies that leave a sound file are listed
 *   here; those are built, planned and run in small arenas. Run it under address and undefined-behaviour sanitizers.
 * Relies on: gguf_fields.h, gguf_tiny.h, model_use.h, check.h; the library.
 * Must never: accept a refusal that names nothing.
 */
#include "check.h"
#include "gguf_fields.h"
#include "gguf_tiny.h"
#include "model_use.h"

static forge sound, lie;
static fields all;

typedef struct outcome { int refused, loaded, unnamed; } outcome;

/* The file, an arena, or a name. */
static bool names_something(const char *message)
{
    return strncmp(message, "memory: ", 8) == 0 || strncmp(message, "arena ", 6) == 0 || strchr(message, '"');
}

/* Opens a copy of exactly that size; true when it loads and runs. */
static bool tell(const forge *f, outcome *o, bs_error *error)
{
    bs_arena arena;
    uint8_t *copy = malloc(f->n);
    if (!copy)
        exit(2);
    memcpy(copy, f->bytes, f->n);
    memset(error, 0, sizeof *error);
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    const bs_status status = use_model(bs_model_open_memory(&arena, copy, f->n, error), &arena, error);
    free(copy);
    o->loaded += status == BS_OK;
    o->refused += status < 0 && names_something(error->message);
    o->unnamed += status > 0 || (status < 0 && !names_something(error->message));
    return status == BS_OK;
}

/* --- numbers ----------------------------------------------------------------------------------------------- */

enum { LIES = 256 };

static void lie_add(uint64_t *lies, size_t *n, uint64_t value, uint64_t mask, uint64_t truth)
{
    value &= mask;
    for (size_t i = 0; i < *n; i++)
        if (lies[i] == value)
            return;
    if (value != (truth & mask))
        lies[(*n)++] = value;
}

/* What a field of so many bytes may say instead of the truth: 0, 1, 2, one less, one more, powers of two and their
 * neighbours, negative ones, and what wraps when it is multiplied by the size of an element or a record. */
CHECK_WRAPS static size_t lies_of(uint64_t truth, size_t bytes, uint64_t *lies)
{
    static const uint64_t sizes[] = {3, 12, 14, 24, 33, 48, 56, 96};
    const uint64_t mask = bytes == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * bytes) - 1;
    size_t n = 0;
    lie_add(lies, &n, 0, mask, truth);
    lie_add(lies, &n, truth - 1, mask, truth);
    lie_add(lies, &n, truth + 1, mask, truth);
    for (size_t k = 0; k < 8 * bytes; k++) {
        lie_add(lies, &n, (uint64_t)1 << k, mask, truth);
        lie_add(lies, &n, ((uint64_t)1 << k) - 1, mask, truth);
        lie_add(lies, &n, 0 - ((uint64_t)1 << k), mask, truth);
    }
    lie_add(lies, &n, UINT64_MAX - 1, mask, truth);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        lie_add(lies, &n, mask / sizes[i] + 1, mask, truth);
    return n;
}

/* What may be another number in a sound file. */
static bool may_load(const field *f, uint64_t value, extra more)
{
    static const char *const free_values[] = {
        "brainstorm.model.scale",    /* up to 64: told to who asks */
        "brainstorm.symbol.maximum", /* a larger one costs memory, a smaller one less */
        "brainstorm.node.inputs",    /* another value of the same kind: another graph */
        "brainstorm.node.params",    /* another setting: another graph */
    };
    if (f->kind != FIELD_VALUE)
        return false;
    for (size_t i = 0; i < sizeof free_values / sizeof *free_values; i++)
        if (strcmp(f->of, free_values[i]) == 0)
            return true;
    if (more == OLD_VERSION && strcmp(f->of, "brainstorm.weight.dtype") == 0) /* no zeros were promised behind a half */
        return value == BS_F16 || value == BS_BF16;
    /* they have all of the first, and nothing here has a pad */
    return value >= 2 && value <= BS_MODEL_OPSET && strcmp(f->of, "brainstorm.opset") == 0;
}

/* All lies about one field. Returns how many loaded that may not. */
static int lie_about(const field *f, extra more, outcome *kinds, outcome *free_ones)
{
    static uint64_t lies[LIES];
    bs_error error;
    uint64_t truth = 0;
    int wrong = 0;
    memcpy(&truth, sound.bytes + f->at, f->bytes);
    const size_t n = lies_of(truth, f->bytes, lies);
    for (size_t k = 0; k < n; k++) {
        const bool may = may_load(f, lies[k], more);
        memcpy(lie.bytes + f->at, &lies[k], f->bytes);
        if (tell(&lie, may ? free_ones : &kinds[f->kind], &error) && !may && wrong++ < 8)
            printf("  loads: %s [%zu] of %s = %llu\n", f->of, f->index, field_kind_names[f->kind],
                   (unsigned long long)lies[k]);
    }
    memcpy(lie.bytes + f->at, sound.bytes + f->at, f->bytes);
    return wrong;
}

static void test_numbers(extra more)
{
    outcome kinds[FIELD_KINDS] = {{0, 0, 0}}, free_ones = {0, 0, 0};
    int wrong = 0;
    for (size_t i = 0; i < all.n; i++)
        wrong += lie_about(&all.field[i], more, kinds, &free_ones);
    for (size_t k = 0; k < FIELD_KINDS; k++)
        check(kinds[k].loaded == 0 && kinds[k].unnamed == 0 && kinds[k].refused > 100,
              "lies in %s: %d refused, %d loaded, %d refused without a name", field_kind_names[k], kinds[k].refused,
              kinds[k].loaded, kinds[k].unnamed);
    check(
        wrong == 0 && free_ones.unnamed == 0 && free_ones.refused > free_ones.loaded && free_ones.loaded > 0,
        "in maxima, operands, parameters, the scale, the op set: %d refused, %d loaded and run, %d refused without a "
        "name",
        free_ones.refused, free_ones.loaded, free_ones.unnamed);
}

/* --- keys -------------------------------------------------------------------------------------------------- */

static void put_u64(size_t at, uint64_t n) { memcpy(lie.bytes + at, &n, 8); }

static bool may_lack(const char *key)
{
    return strcmp(key, "brainstorm.model.name") == 0 || strcmp(key, "brainstorm.model.scale") == 0;
}

static void test_absent(void)
{
    outcome o = {0, 0, 0};
    bs_error error;
    int wrong = 0, named = 0;
    for (size_t i = 0; i < all.n_keys; i++) {
        const field_record *const key = &all.key[i];
        lie = sound;
        put_u64(16, all.n_keys - 1);
        forge_splice(&lie, key->at, key->end - key->at, "", 0, TINY_ALIGNMENT);
        const bool loads = tell(&lie, &o, &error);
        if (loads != may_lack(key->name))
            printf("  without %s: %s\n", key->name, error.message);
        wrong += loads != may_lack(key->name);
        named += strstr(error.message, key->name) != NULL;
    }
    check(wrong == 0 && o.unnamed == 0 && o.loaded == 2,
          "a key that is missing: %d refused, %d loaded, of which none is needed", o.refused, o.loaded);
    check(named + 6 >= o.refused, "and named, but for those that only contradict others (%d of %d)", named, o.refused);
}

static void test_doubled(void)
{
    outcome o = {0, 0, 0};
    bs_error error;
    int named = 0;
    const size_t end = all.key[all.n_keys - 1].end;
    for (size_t i = 0; i < all.n_keys; i++) {
        const field_record *const key = &all.key[i];
        lie = sound;
        put_u64(16, all.n_keys + 1);
        forge_splice(&lie, end, 0, sound.bytes + key->at, key->end - key->at, TINY_ALIGNMENT);
        tell(&lie, &o, &error);
        named += strstr(error.message, "two keys are called") && strstr(error.message, key->name);
    }
    check(o.refused == (int)all.n_keys && named == o.refused,
          "a key that is there twice: %d refused and named, %d loaded", named, o.loaded);
    o = (outcome){0, 0, 0};
    for (size_t i = 0; i < all.n_tensors; i++) {
        const field_record *const tensor = &all.tensor[i];
        lie = sound;
        put_u64(8, all.n_tensors + 1);
        forge_splice(&lie, all.tensor[all.n_tensors - 1].end, 0, sound.bytes + tensor->at, tensor->end - tensor->at,
                     TINY_ALIGNMENT);
        tell(&lie, &o, &error);
    }
    check(o.refused == (int)all.n_tensors, "a tensor that is there twice: %d refused, %d loaded", o.refused, o.loaded);
}

/* A well-formed value of that type: zeros, no characters; an array of one of them, or of as many as were there. */
static size_t value_of(uint32_t type, bool array, uint64_t count, uint8_t *bytes)
{
    const size_t each = type == T_STRING ? 8 : field_type_bytes(type);
    size_t n = 0;
    const uint32_t array_type = T_ARRAY;
    if (array) {
        memcpy(bytes, &array_type, 4);
        n = 4;
    }
    memcpy(bytes + n, &type, 4);
    n += 4;
    if (array) {
        memcpy(bytes + n, &count, 8);
        n += 8;
    }
    memset(bytes + n, 0, each * (array ? (size_t)count : 1));
    return n + each * (array ? (size_t)count : 1);
}

static void test_types(void)
{
    static uint8_t value[1 << 12];
    outcome o = {0, 0, 0};
    bs_error error;
    int named = 0;
    for (size_t i = 0; i < all.n_keys; i++) {
        const field_record *const key = &all.key[i];
        const size_t at = key->at + 8 + strlen(key->name);
        const bool is_array = field_read_u32(&sound, at) == T_ARRAY;
        const uint32_t is = field_read_u32(&sound, at + (is_array ? 4 : 0));
        const uint64_t count = is_array ? forge_read_u64(&sound, at + 8) : 1;
        for (uint32_t t = 0; t < 26; t++) {
            const uint32_t type = t % 13;
            const bool array = t >= 13;
            if (type == T_ARRAY || (type == is && array == is_array))
                continue;
            lie = sound;
            forge_splice(&lie, at, key->end - at, value, value_of(type, array, count, value), TINY_ALIGNMENT);
            if (tell(&lie, &o, &error))
                printf("  loads: %s of type %u\n", key->name, type);
            named += strstr(error.message, key->name) != NULL;
        }
    }
    check(o.loaded == 0 && o.unnamed == 0 && named == o.refused,
          "a key of another type: %d refused, %d of them named, %d loaded", o.refused, named, o.loaded);
}

/* --- strings ----------------------------------------------------------------------------------------------- */

static bool is_string(const field *f) { return f->kind == FIELD_NAME_BYTES || f->kind == FIELD_STRING_BYTES; }

static void test_characters(void)
{
    static const uint8_t bad[] = {0, 1, '\n', 27, 31, 127, 128, 0xc3, 255};
    outcome o = {0, 0, 0};
    bs_error error;
    lie = sound;
    for (size_t i = 0; i < all.n; i++) {
        const field *const f = &all.field[i];
        const size_t length = is_string(f) ? (size_t)forge_read_u64(&sound, f->at) : 0;
        for (size_t at = f->at + 8; at < f->at + 8 + length; at += 1 + length / 3) {
            for (size_t b = 0; b < sizeof bad; b++) {
                lie.bytes[at] = bad[b];
                tell(&lie, &o, &error);
            }
            lie.bytes[at] = sound.bytes[at];
        }
    }
    check(o.loaded == 0 && o.unnamed == 0 && o.refused > 1000,
          "a name that is not printable ASCII: %d refused, %d loaded", o.refused, o.loaded);
}

/* The longest that the format allows for strings of this field. */
static size_t string_limit(const field *f)
{
    if (f->kind == FIELD_NAME_BYTES)
        return strncmp(f->of, "block.", 6) == 0 ? 63 : 127;
    return strcmp(f->of, "brainstorm.weight.name") == 0 ? 95 : 63;
}

static void test_lengths(void)
{
    static uint8_t text[1 << 12];
    outcome too_long = {0, 0, 0}, others = {0, 0, 0};
    bs_error error;
    for (size_t i = 0; i < all.n; i++) {
        const field *const f = &all.field[i];
        if (!is_string(f))
            continue;
        const size_t limit = string_limit(f), tries[] = {0, 1, limit, limit + 1, limit + 2, 2 * limit, 1000, 4000};
        for (size_t k = 0; k < sizeof tries / sizeof *tries; k++) {
            const uint64_t length = tries[k];
            memcpy(text, &length, 8);
            memset(text + 8, 'x', tries[k]);
            lie = sound;
            forge_splice(&lie, f->at, 8 + (size_t)forge_read_u64(&sound, f->at), text, 8 + tries[k], TINY_ALIGNMENT);
            if (tell(&lie, tries[k] > limit ? &too_long : &others, &error) && tries[k] > limit)
                printf("  loads: %s [%zu] of %zu bytes\n", f->of, f->index, tries[k]);
        }
    }
    check(too_long.loaded == 0 && too_long.unnamed == 0 && too_long.refused > 300,
          "a name that is too long: %d refused, %d loaded", too_long.refused, too_long.loaded);
    check(others.unnamed == 0 && others.refused > others.loaded,
          "another name, an empty or a longest one: %d refused, %d loaded", others.refused, others.loaded);
}

int main(void)
{
    static const struct { extra more; const char *name; } files[] = {
        {OLD_VERSION, "a file of version 1"}, {PAGES, "a file that is streamed"}, {NOTHING, "a file aligned to 64"}};
    bs_error error;
    outcome o = {0, 0, 0};
    for (size_t i = 0; i < 3; i++) {
        tiny_write(&sound, files[i].more);
        lie = sound;
        fields_find(&all, &sound);
        check(tell(&sound, &o, &error), "%s with %zu numbers is sound %s", files[i].name, all.n, error.message);
        test_numbers(files[i].more);
    }
    test_absent();
    test_doubled();
    test_types();
    test_characters();
    test_lengths();
    return check_end();
}
