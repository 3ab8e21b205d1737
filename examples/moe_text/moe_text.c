/* moe_text: writes text with a mixture of experts, one character a run.
 *
 * Owns: the flow from prompt to text and the messages of a run.
 * Relies on: text_options.h, text_model.h, text_sample.h, text_report.h, stream_options.h, device_options.h, files.h,
 * stop.h. Must never: write anything but text to standard output.
 */
#define _POSIX_C_SOURCE 200809L
#include "text_model.h"
#include "text_options.h"
#include "text_report.h"
#include "text_sample.h"

#include "files.h"
#include "stop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct run {
    text_options options;
    files files;
    text_model model;
    stream_tools tools;
    text_sampler samplers[TEXT_MAX_SEQUENCES];
    int32_t rows[TEXT_MAX_ROWS]; /* what a run reads: each sequence's characters */
    char *texts;                 /* [sequences][length] */
    double prompt_seconds, text_seconds;
} run;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "moe_text: %s%s%s\n", what, *what ? ": " : "", why);
    return false;
}

/* What the model reads first: a text begins at the start of a line. */
static const char *beginning(const text_options *o)
{
    return *o->prompt ? o->prompt : "\n";
}

static bool check_prompt(const text_options *o)
{
    char text[96];
    for (const char *c = o->prompt; *c; c++)
        if (text_code(*c) < 0) {
            snprintf(text, sizeof text, "character %d (byte %d) has no code: printable ASCII, please",
                     (int)(c - o->prompt) + 1, (int)(unsigned char)*c);
            return complain("--prompt", text);
        }
    return true;
}

/* As much of the prompt in one run as there are rows for. */
static bool read_prompt(run *r)
{
    const char *text = beginning(&r->options);
    const int sequences = r->options.sequences;
    for (size_t left = strlen(text); left > 0;) {
        const int rows = left < (size_t)r->model.rows_most ? (int)left : r->model.rows_most;
        for (int s = 0; s < sequences; s++)
            for (int i = 0; i < rows; i++)
                r->rows[s * rows + i] = text_code(text[i]);
        if (!text_model_run(&r->model, r->rows, rows))
            return complain("network", r->model.error.message);
        text += rows;
        left -= (size_t)rows;
    }
    return true;
}

static bool complain_system(const char *what)
{
    char text[120];
    snprintf(text, sizeof text, "writing failed: %s", strerror(errno));
    return *stop_flag() ? complain("", "stopped by a signal") : complain(what, text);
}

static bool show(const run *r, const char *text, size_t bytes)
{
    if (r->options.sequences > 1)
        return true;
    return (fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0) || complain_system("standard output");
}

/* The next character of every sequence; `at`: of the text. */
static bool write_character(run *r, int at)
{
    const text_options *o = &r->options;
    for (int s = 0; s < o->sequences; s++) {
        r->rows[s] = text_sample(&r->samplers[s], r->model.logits[s], TEXT_CODES);
        r->texts[(size_t)s * (size_t)o->length + (size_t)at] = text_character(r->rows[s]);
    }
    if (!show(r, r->texts + at, 1))
        return false;
    return at + 1 == o->length || text_model_run(&r->model, r->rows, 1) || complain("network", r->model.error.message);
}

static bool write_text(run *r)
{
    const text_options *o = &r->options;
    const double since = seconds();
    if (!show(r, o->prompt, strlen(o->prompt)) || !read_prompt(r))
        return false;
    r->prompt_seconds = seconds() - since;
    for (int i = 0; i < o->length; i++)
        if (*stop_flag() ? !complain("", "stopped by a signal") : !write_character(r, i))
            return false;
    r->text_seconds = seconds() - since - r->prompt_seconds;
    return show(r, "\n", 1);
}

static bool print_all(const run *r)
{
    const text_options *o = &r->options;
    for (int s = 0; o->sequences > 1 && s < o->sequences; s++)
        if (printf("--- %d ---\n%s%.*s\n", s + 1, o->prompt, o->length, r->texts + (size_t)s * (size_t)o->length) < 0)
            return complain_system("standard output");
    return fflush(stdout) == 0 || complain_system("standard output");
}

/* What the library says of a file begins with the file's name already. */
static bool complain_network(const run *r)
{
    const text_options *o = &r->options;
    const char *what = device_found(&r->model.gpu, &o->device) ? o->model : "--device cuda",
               *why = r->model.error.message;
    return complain(files_is_named(why, what) ? "" : what, why);
}

static bool do_run(run *r)
{
    const text_options *o = &r->options;
    const size_t prompt = strlen(beginning(o)), most = (size_t)(TEXT_MAX_ROWS / o->sequences);
    if (!check_prompt(o))
        return false;
    if (files_add(&r->files, FILES_NAMED, "the model", o->model) < 0 || !files_add_stdout(&r->files))
        return complain("", r->files.message);
    if (!stream_tools_open(&r->tools, &o->stream, &r->files, &r->model.error))
        return complain("", r->model.error.message);
    if (!text_model_open(&r->model, o, (int)(prompt < most ? prompt : most), &r->tools))
        return complain_network(r);
    if (r->model.gpu.fallback[0])
        complain("--device cuda", r->model.gpu.fallback);
    for (int s = 0; s < o->sequences; s++)
        text_sampler_open(&r->samplers[s], o->temperature, o->seed, s);
    r->texts = malloc((size_t)o->sequences * (size_t)o->length);
    if (!r->texts)
        return complain("", "not enough memory for the text");
    if (*stop_flag())
        return complain("", "stopped by a signal; nothing was written");
    if (!files_empty(&r->files))
        return complain("", r->files.message);
    if (!write_text(r) || !print_all(r))
        return false;
    if (o->stats)
        text_report(&r->model, (double)prompt * o->sequences, r->prompt_seconds, (double)o->length * o->sequences,
                    r->text_seconds);
    return true;
}

/* The session goes first: its last events are in the profile then. */
static bool close_run(run *r, bool ok)
{
    char text[80];
    uint64_t dropped = 0;
    text_model_close(&r->model);
    free(r->texts);
    if (!stream_tools_close(&r->tools, &dropped) && ok)
        return complain_system("the profile or the trace");
    if (dropped > 0) {
        snprintf(text, sizeof text, "%llu events found no room and are missing", (unsigned long long)dropped);
        complain("profile", text);
    }
    return ok;
}

int main(int argc, char **argv)
{
    static run r;
    char message[160];
    files_begin(&r.files);
    const char *wrong = text_options_parse(&r.options, argc, argv, message, sizeof message);
    if (wrong) {
        complain("", wrong);
        return 2;
    }
    if (r.options.help) {
        fputs(text_options_usage(), stdout);
        return 0;
    }
    stop_catch();
    const bool ok = close_run(&r, do_run(&r));
    files_end(&r.files);
    return ok ? 0 : 1;
}
