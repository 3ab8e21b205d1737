/* options.c: see options.h. */
#include "options.h"

#include "cores.h"
#include "shipped.h"
#include "words.h"
#include "y4m.h"

#include <stdio.h>
#include <string.h>

static const char *const route_names[] = {"auto", "bicubic", "small", "large", "exit1", "exit2", NULL};
static const char *const conv_names[] = {"auto", "direct", "winograd", NULL};
static const char *const order_names[] = {"auto", "breadth", "depth", NULL};
static const char *const tier_names[] = {"auto", "scalar", "avx2", "avx512", "neon", NULL};

const char *options_route_name(video_route route)
{
    return route_names[route];
}

const char *options_usage(void)
{
    return "usage: video_sr [options] INPUT OUTPUT\n"
           "Doubles the size of a y4m video: luma by a routed network, chroma bicubic. - is standard input or output.\n"
           "\n"
           "  --model FILE      network [sr2x_video.gguf, as shipped: ../models or ../share/brainstorm beside\n"
           "                    the program, models/ here]; examples/video/README.md says what it must be\n"
           "  --quality N       0..100: percent of the large net's gain over bicubic that routing aims to keep [93]\n"
           "  --floor DB        what is so near to the large net's result that nobody sees the difference is not paid "
           "for,\n"
           "                    whatever the quality; 0: nothing is [the model's: 55]\n"
           "  --route R         auto | bicubic | small | large: one route for every tile [auto]\n"
           "                    (exit1 | exit2: the large net, left at that exit)\n"
           "  --no-reuse        recompute tiles that did not change\n"
           "  --threads N       1..64 [the processors here]\n"
           "  --tier T          auto | scalar | avx2 | avx512 | neon [auto]\n"
           "  --conv C          auto | direct | winograd [auto]\n"
           "  --order O         auto | breadth | depth: layer by layer, or a whole block on one tile [auto]\n"
           "  --tile N          input pixels of a tile's side [the model's, or larger where one route is forced];\n"
           "                    routed: not below the model's\n"
           "  --frames N        stop after N frames\n"
           "  --map FILE        routes drawn over the picture: FILE.png the last frame, else a y4m video\n"
           "  --reference FILE  y4m of the doubled size: prints PSNR-Y and SSIM against it\n"
           "  --stats FILE      everything measured, as JSON\n"
           "  --quiet           no progress\n"
           "\n"
           "On a GPU; the next frame is read while it works. --threads, --tier and --conv are the "
           "CPU's:\n" DEVICE_OPTIONS_USAGE "\n"
           "Weights that do not fit into memory; results are the same bytes:\n" STREAM_OPTIONS_USAGE "\n"
           "  --help\n"
           "\n"
           "ffmpeg -v error -i in.mp4 -f yuv4mpegpipe - | video_sr - - | ffmpeg -f yuv4mpegpipe -i - out.mp4\n";
}

static const char *complain(char *message, size_t bytes, const char *option, const char *value, const char *expected)
{
    snprintf(message, bytes, "%s %.60s: expected %s", option, value, expected);
    return message;
}

/* Whether the option takes the name of a file. */
static bool take_file(video_options *o, const char *name, const char *value)
{
    if (strcmp(name, "--model") == 0)
        o->model = value;
    else if (strcmp(name, "--map") == 0)
        o->map = value;
    else if (strcmp(name, "--reference") == 0)
        o->reference = value;
    else if (strcmp(name, "--stats") == 0)
        o->stats = value;
    else
        return false;
    return true;
}

/* Options that other programs have too. Returns NULL when it was taken. */
static const char *take_shared(video_options *o, const char *name, const char *value, char *message, size_t bytes)
{
    const device_taken device = device_options_value(&o->device, name, value, message, bytes);
    if (device != DEVICE_OTHER)
        return device == DEVICE_TAKEN ? NULL : message;
    const stream_taken taken = stream_options_value(&o->stream, name, value, message, bytes);
    if (taken == STREAM_OTHER)
        snprintf(message, bytes, "unknown option %.60s (see --help)", name);
    return taken == STREAM_TAKEN ? NULL : message;
}

/* Options that take a value. Returns NULL when it was taken. */
static const char *take(video_options *o, const char *name, const char *value, char *message, size_t bytes)
{
    int64_t n = 0;
    int32_t i = 0;
    if (take_file(o, name, value))
        return NULL;
    if (strcmp(name, "--quality") == 0) {
        if (!word_number(value, 0, 100, &o->quality))
            return complain(message, bytes, name, value, "0 .. 100");
    } else if (strcmp(name, "--floor") == 0) {
        if (!word_number(value, 0, 65, &o->floor) || (o->floor > 0 && o->floor < 30))
            return complain(message, bytes, name, value, "0, or 30 .. 65 dB");
    } else if (strcmp(name, "--threads") == 0) {
        if (!word_whole(value, 1, 64, &n))
            return complain(message, bytes, name, value, "1 .. 64");
        o->threads = (int)n;
    } else if (strcmp(name, "--frames") == 0) {
        if (!word_whole(value, 1, 1e15, &n))
            return complain(message, bytes, name, value, "a positive number");
        o->frames = n;
    } else if (strcmp(name, "--tile") == 0) {
        if (!word_whole(value, 8, 8192, &n))
            return complain(message, bytes, name, value, "8 .. 8192");
        o->tile = (int)n;
    } else if (strcmp(name, "--route") == 0) {
        if ((i = word_name(value, route_names)) < 0)
            return complain(message, bytes, name, value, "auto, bicubic, small or large");
        o->route = (video_route)i;
    } else if (strcmp(name, "--tier") == 0) {
        if ((i = word_name(value, tier_names)) < 0)
            return complain(message, bytes, name, value, "auto, scalar, avx2, avx512 or neon");
        o->tier = (bs_tier)i;
    } else if (strcmp(name, "--conv") == 0) {
        if ((i = word_name(value, conv_names)) < 0)
            return complain(message, bytes, name, value, "auto, direct or winograd");
        o->conv = (bs_conv_choice)i;
    } else if (strcmp(name, "--order") == 0) {
        if ((i = word_name(value, order_names)) < 0)
            return complain(message, bytes, name, value, "auto, breadth or depth");
        o->order = (bs_order)i;
    } else {
        return take_shared(o, name, value, message, bytes);
    }
    return NULL;
}

static bool is_flag(video_options *o, const char *name)
{
    if (strcmp(name, "--no-reuse") == 0)
        o->reuse = false;
    else if (strcmp(name, "--quiet") == 0)
        o->quiet = true;
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        o->help = true;
    else
        return device_options_flag(&o->device, name) || stream_options_flag(&o->stream, name);
    return true;
}

/* What names alone tell. That no file is used twice is checked by what the files are, when they are opened. */
static const char *misnamed(const video_options *o, char *message, size_t bytes)
{
    const char *name = y4m_misnamed(o->output)                            ? o->output
                       : o->map && !o->map_is_png && y4m_misnamed(o->map) ? o->map
                                                                          : NULL;
    if (o->reference && strcmp(o->reference, "-") == 0 && strcmp(o->input, "-") == 0)
        return "the reference and the input are both standard input";
    if (name)
        snprintf(message, bytes, "%.80s: what is written is y4m; for another format: video_sr ... - | ffmpeg -i - FILE",
                 name);
    return name ? message : NULL;
}

static bool ends_in_png(const char *path)
{
    const size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".png") == 0;
}

const char *options_parse(video_options *o, int argc, char **argv, char *message, size_t bytes)
{
    *o = (video_options){.reuse = true, .quality = 93, .floor = -1, .frames = -1};
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (a[0] == '-' && a[1] == '-') {
            if (is_flag(o, a))
                continue;
            if (i + 1 >= argc) {
                snprintf(message, bytes, "%.60s needs a value, or is unknown (see --help)", a);
                return message;
            }
            const char *wrong = take(o, a, argv[++i], message, bytes);
            if (wrong)
                return wrong;
        } else if (a[0] == '-' && a[1] != 0) {
            if (is_flag(o, a))
                continue;
            snprintf(message, bytes, "unknown option %.60s (see --help)", a);
            return message;
        } else if (!o->input) {
            o->input = a;
        } else if (!o->output) {
            o->output = a;
        } else {
            snprintf(message, bytes, "one input and one output, please: \"%.60s\" is a third file", a);
            return message;
        }
    }
    if (!o->help && !o->output)
        return "an input and an output are needed (see --help)";
    if (o->help)
        return NULL;
    o->map_is_png = o->map && ends_in_png(o->map);
    if (o->threads == 0)
        o->threads = o->device.cuda ? 1 : cores_usable();
    if (!o->model && !shipped_find(argv[0], "sr2x_video.gguf", o->shipped, sizeof o->shipped))
        return o->shipped;
    o->model = o->model ? o->model : o->shipped;
    const char *wrong = device_options_wrong(&o->device);
    return wrong ? wrong : misnamed(o, message, bytes);
}
