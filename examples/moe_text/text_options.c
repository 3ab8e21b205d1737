/* text_options.c: see text_options.h. */
#include "text_options.h"

#include "cores.h"
#include "shipped.h"
#include "words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *text_options_usage(void)
{
    return "usage: moe_text [options]\n"
           "Writes text, character by character, with a mixture of experts: 2 of 16 in each of 4 layers.\n"
           "\n"
           "  --model FILE      network [moe_text.gguf, as shipped: ../models or ../share/brainstorm beside the\n"
           "                    program, models/ here]\n"
           "  --prompt TEXT     printable ASCII and new lines; the text goes on from here [a new line]\n"
           "  --length N        characters to write, 1..1000000 [400]\n"
           "  --sequences N     1..32 texts side by side, printed one after the other at the end [1]\n"
           "  --temperature T   0..10; 0: always the likeliest character [0.7]\n"
           "  --seed N          the same number gives the same text [1]\n"
           "  --threads N       1..64 [the processors here]\n"
           "  --stats           time, memory and reads, to standard error\n"
           "\n"
           "On a GPU (--threads is of the CPU):\n" DEVICE_OPTIONS_USAGE "\n"
           "Experts that do not fit into memory; the text is the same:\n" STREAM_OPTIONS_USAGE "\n"
           "  --help\n";
}

static bool whole(const char *text, double low, double high, int *value)
{
    int64_t n;
    const bool ok = word_whole(text, low, high, &n);
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

/* What a value should have been, NULL when it was taken, "" when the option is none of these. */
static const char *take_own(text_options *o, const char *name, const char *value)
{
    if (strcmp(name, "--model") == 0)
        o->model = value;
    else if (strcmp(name, "--prompt") == 0)
        o->prompt = value;
    else if (strcmp(name, "--length") == 0)
        return whole(value, 1, 1000000, &o->length) ? NULL : "1 .. 1000000";
    else if (strcmp(name, "--sequences") == 0)
        return whole(value, 1, TEXT_MAX_SEQUENCES, &o->sequences) ? NULL : "1 .. 32";
    else if (strcmp(name, "--temperature") == 0)
        return word_number(value, 0, 10, &o->temperature) ? NULL : "0 .. 10";
    else if (strcmp(name, "--seed") == 0)
        return seed_number(value, &o->seed) ? NULL : "a whole number";
    else if (strcmp(name, "--threads") == 0)
        return whole(value, 1, 64, &o->threads) ? NULL : "1 .. 64";
    else
        return "";
    return NULL;
}

static stream_taken take(text_options *o, const char *name, const char *value, char *message, size_t bytes)
{
    const char *expected = take_own(o, name, value);
    if (expected && *expected == 0) {
        const device_taken device = device_options_value(&o->device, name, value, message, bytes);
        if (device != DEVICE_OTHER)
            return device == DEVICE_TAKEN ? STREAM_TAKEN : STREAM_WRONG;
        const bool on = strcmp(name, "--speculate") == 0 && strcmp(value, "on") == 0; /* as opposed to off */
        return stream_options_value(&o->stream, name, on ? "auto" : value, message, bytes);
    }
    if (expected)
        snprintf(message, bytes, "%s %.60s: expected %s", name, value, expected);
    return expected ? STREAM_WRONG : STREAM_TAKEN;
}

static bool is_flag(text_options *o, const char *name)
{
    if (strcmp(name, "--stats") == 0)
        o->stats = true;
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        o->help = true;
    else
        return device_options_flag(&o->device, name) || stream_options_flag(&o->stream, name);
    return true;
}

static const char *unknown(const char *text, char *message, size_t bytes)
{
    snprintf(message, bytes,
             text[0] == '-' ? "unknown option %.60s (see --help)" : "\"%.60s\" is no option; a prompt is --prompt TEXT",
             text);
    return message;
}

const char *text_options_parse(text_options *o, int argc, char **argv, char *message, size_t bytes)
{
    *o = (text_options){.prompt = "", .length = 400, .sequences = 1, .temperature = 0.7, .seed = 1};
    for (int i = 1; i < argc; i++) {
        if (is_flag(o, argv[i]))
            continue;
        const bool last = i + 1 == argc;
        const stream_taken taken = take(o, argv[i], last ? "" : argv[i + 1], message, bytes);
        if (taken == STREAM_OTHER)
            return unknown(argv[i], message, bytes);
        if (last)
            snprintf(message, bytes, "%.60s: expected a value", argv[i]);
        if (last || taken == STREAM_WRONG)
            return message;
        i++;
    }
    if (o->help)
        return NULL;
    if (o->threads == 0)
        o->threads = o->device.cuda ? 1 : cores_usable();
    if (!o->model && !shipped_find(argv[0], "moe_text.gguf", o->shipped, sizeof o->shipped))
        return o->shipped;
    o->model = o->model ? o->model : o->shipped;
    return device_options_wrong(&o->device);
}
