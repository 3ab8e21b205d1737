/* tags: asan */
/* test_messages_weights.c: what keeps a weight from being taken is said in one line: which weight, what it is, what was
 * expected.
 *
 * Owns: sources that lack, lose or fail, and the whole text that each must give. Relies on: messages.h.
 * Must never: be content with a part of a message.
 */
#include "../src/ops/weights.h"
#include "messages.h"

static bs_status read_fails(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user, (void)info, (void)offset, (void)buffer, (void)bytes;
    return BS_ERROR_IO;
}

static bs_weight_info found;

static bs_status find_any(const void *user, const char *name, bs_weight_info *info)
{
    (void)user;
    *info = found;
    return strcmp(name, "lost") == 0 ? BS_ERROR_IO : strcmp(name, "none") == 0 ? BS_ERROR_WEIGHTS : BS_OK;
}

static void test_weights(void)
{
    static const struct { const char *name; bs_weight_info info; bs_status status; const char *text; } wrong[] = {
        {"none", {0}, BS_ERROR_WEIGHTS, "weight \"none\" is missing"},
        {"lost", {0}, BS_ERROR_IO, "weight \"lost\": its source cannot look it up"},
        {"a.weight", {.dtype = BS_F32, .rank = 3, .dim = {2, 3, 4}, .bytes = 96}, BS_ERROR_WEIGHTS,
         "weight \"a.weight\" is [2, 3, 4], expected [2, 3]"},
        {"a.weight", {.dtype = BS_F32, .rank = 2, .dim = {2, 4}, .bytes = 32}, BS_ERROR_WEIGHTS,
         "weight \"a.weight\" is [2, 4], expected [2, 3]"},
        {"a.weight", {.dtype = BS_I32, .rank = 2, .dim = {2, 3}, .bytes = 24}, BS_ERROR_WEIGHTS,
         "weight \"a.weight\" is i32, expected f32"},
        {"a.weight", {.dtype = BS_F16, .rank = 2, .dim = {2, 3}, .bytes = 24}, BS_ERROR_WEIGHTS,
         "weight \"a.weight\" has 24 bytes, expected those of [2, 3] of f16"},
    };
    static const bs_weights weights = {.find = find_any, .read = read_fails};
    static const bs_weight_spec spec = {"", BS_F32, 2, {2, 3}};
    bs_error error;
    float target[6];
    bs_weight_info info = {.dtype = BS_F32, .bytes = 24};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        found = wrong[i].info;
        bs_weight_find(&weights, wrong[i].name, &spec, &info, &error);
        message_is(&error, wrong[i].status, wrong[i].text);
    }
    info.bytes = 24;
    bs_weight_load(&weights, "a.weight", &spec, &info, BS_TIER_SCALAR, target, &error);
    message_is(&error, BS_ERROR_IO, "weight \"a.weight\": its 24 bytes could not be read");
    info.bytes = 25;
    bs_weight_load(&weights, "a.weight", &spec, &info, BS_TIER_SCALAR, target, &error);
    message_is(&error, BS_ERROR_ARGUMENT, "weight \"a.weight\" has 25 bytes, expected at most 24");
}

int main(void)
{
    test_weights();
    messages_of("src/ops/weights.c");
    return check_end();
}
