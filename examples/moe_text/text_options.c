/* text_options.c: see text_options.h. */
#include "text_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *text_options_usage(void)
{
    return "usage: moe_text [options]\n"
           "Writes text, character by character, with a mixture of experts: 2 of 16 in each of 4 layers.\n"
           "\n"
           "  --model FILE      network [models/moe_text.gguf]\n"
           "  --prompt TEXT     printable ASCII and new lines; the text goes on from here [a new line]\n"
           "  --length N        characters to write, 1..1000000 [400]\n"
           "  --sequences N     1..32 texts side by side, printed one after the other at the end [1]\n"
           "  --temperature T   0..10; 0: always the likeliest character [0.7]\n"
           "  --seed N          the same number gives the same text [1]\n"
           "  --threads N       1..64 [1]\n"
           "  --slots BYTES     memory for experts, which are read from the file when they are needed, or guessed to be;\n"
           "                    K and M are 1024 and 1048576 [0: all are resident]\n"
           "  --speculate S     on | off: read experts ahead that will probably be chosen [on]\n"
           "  --policy P        reuse | lru | lfu: what goes when there is no room [reuse]\n"
           "  --stats           time, memory and reads, to standard error\n"
           "  --profile FILE    what happened, event by event (docs/profile.md)\n"
           "  --trace FILE      the same as a Chrome trace, for ui.perfetto.dev\n"
           "  --help\n";
}

static bool number(const char *text, double low, double high, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return *text != 0 && *end == 0 && *value >= low && *value <= high;
}

static bool whole_number(const char *text, int low, int high, int *value)
{
    double n = 0;
    const bool ok = number(text, low, high, &n) && n == (double)(int64_t)n;
    if (ok)
        *value = (int)n;
    return ok;
}

static bool seed_number(const char *text, uint64_t *value)
{
    char *end;
    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == 0;
}

/* A number of bytes: K and M multiply. */
static bool byte_number(const char *text, uint64_t *value)
{
    char *end;
    const unsigned long long n = strtoull(text, &end, 10);
    const unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
    end += shift > 0;
    *value = (uint64_t)n << shift;
    return *text >= '0' && *text <= '9' && *end == 0 && n <= ((unsigned long long)1 << 40);
}

static bool policy_number(const char *text, int *value)
{
    for (int i = 0; i < BS_POLICY_BELADY; i++) /* that one needs to know the future */
        if (strcmp(text, bs_policy_name((bs_policy)i)) == 0) {
            *value = i;
            return true;
        }
    return false;
}

static bool on_or_off(const char *text, bool *value)
{
    *value = strcmp(text, "on") == 0;
    return *value || strcmp(text, "off") == 0;
}

/* What a value should have been, NULL when it was taken, "" when there is no such option. */
static const char *take(text_options *o, const char *name, const char *value)
{
    if (strcmp(name, "--model") == 0)
        o->model = value;
    else if (strcmp(name, "--prompt") == 0)
        o->prompt = value;
    else if (strcmp(name, "--length") == 0)
        return whole_number(value, 1, 1000000, &o->length) ? NULL : "1 .. 1000000";
    else if (strcmp(name, "--sequences") == 0)
        return whole_number(value, 1, TEXT_MAX_SEQUENCES, &o->sequences) ? NULL : "1 .. 32";
    else if (strcmp(name, "--temperature") == 0)
        return number(value, 0, 10, &o->temperature) ? NULL : "0 .. 10";
    else if (strcmp(name, "--seed") == 0)
        return seed_number(value, &o->seed) ? NULL : "a whole number";
    else if (strcmp(name, "--threads") == 0)
        return whole_number(value, 1, 64, &o->threads) ? NULL : "1 .. 64";
    else if (strcmp(name, "--slots") == 0)
        return byte_number(value, &o->slot_bytes) ? NULL : "bytes, such as 600K or 2M";
    else if (strcmp(name, "--speculate") == 0)
        return on_or_off(value, &o->speculate) ? NULL : "on or off";
    else if (strcmp(name, "--policy") == 0)
        return policy_number(value, &o->policy) ? NULL : "reuse, lru or lfu";
    else if (strcmp(name, "--profile") == 0)
        o->profile = value;
    else if (strcmp(name, "--trace") == 0)
        o->trace = value;
    else
        return "";
    return NULL;
}

static bool is_flag(text_options *o, const char *name)
{
    if (strcmp(name, "--stats") == 0)
        o->stats = true;
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        o->help = true;
    else
        return false;
    return true;
}

static const char *unknown(const char *text, char *message, size_t bytes)
{
    snprintf(message, bytes, text[0] == '-' ? "unknown option %.60s (see --help)" : "\"%.60s\" is no option; a prompt is --prompt TEXT", text);
    return message;
}

const char *text_options_parse(text_options *o, int argc, char **argv, char *message, size_t bytes)
{
    *o = (text_options){.model = "models/moe_text.gguf", .prompt = "", .length = 400, .sequences = 1, .temperature = 0.7,
                        .seed = 1, .threads = 1, .speculate = true};
    for (int i = 1; i < argc; i++) {
        if (is_flag(o, argv[i]))
            continue;
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        const char *expected = take(o, argv[i], value ? value : "");
        if (expected && *expected == 0)
            return unknown(argv[i], message, bytes);
        if (!value || expected) {
            snprintf(message, bytes, "%s %.60s: expected %s", argv[i], value ? value : "", value ? expected : "a value");
            return message;
        }
        i++;
    }
    return NULL;
}
