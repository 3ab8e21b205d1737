/* halve.c: halve INPUT OUTPUT: makes the small clip of a super-resolution measurement.
 *
 * Owns: the protocol: crop every frame to a multiple of 4, halve each plane as MATLAB's bicubic does.
 *   --crop-only writes the cropped clip itself, which is the reference to measure against.
 * Relies on: files.h, stop.h, y4m.h, picture.h, progress.h.
 * Must never: treat chroma better than the protocol says: each plane is halved by itself with aligned
 *   centres, which moves cosited chroma by a quarter of a luma sample. Only luma is measured.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "picture.h"
#include "progress.h"
#include "stop.h"
#include "y4m.h"

typedef struct options {
    const char *input, *output;
    bool crop_only, quiet;
} options;

typedef struct job {
    files files;
    int input, output; /* of files */
    y4m_reader in;
    y4m_writer out;
    int64_t total; /* frames expected; -1: not known */
    y4m_info cropped; /* geometry of the part of an input frame that counts */
    uint8_t *frame, *result;
    void *scratch;
    bool crop_only;
} job;

static int fail(const char *what, const y4m_error *error)
{
    char text[256];
    y4m_message(error, text, sizeof text);
    fprintf(stderr, "halve: %s: %s\n", what, text);
    return 1;
}

static int fail_files(const files *f) { return fprintf(stderr, "halve: %s\n", f->message), 1; }

static void usage(FILE *to)
{
    fputs("usage: halve [--crop-only] [--quiet] INPUT.y4m OUTPUT.y4m   (- is standard input or output)\n"
          "Crops to a multiple of 4 and halves every plane (MATLAB-style bicubic).\n"
          "  --crop-only  write the cropped clip at its full size: the reference\n"
          "  --quiet      no progress on standard error\n",
          to);
}

/* Returns -1 to go on, or the exit code. */
static int read_options(int argc, char **argv, options *o)
{
    memset(o, 0, sizeof *o);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--crop-only") == 0)
            o->crop_only = true;
        else if (strcmp(argv[i], "--quiet") == 0)
            o->quiet = true;
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return usage(stdout), 0;
        else if (argv[i][0] == '-' && argv[i][1])
            return fprintf(stderr, "halve: unknown option %s\n", argv[i]), 2;
        else if (!o->input)
            o->input = argv[i];
        else if (!o->output)
            o->output = argv[i];
        else
            return fprintf(stderr, "halve: too many arguments: %s\n", argv[i]), 2;
    }
    if (o->output && y4m_misnamed(o->output))
        return fprintf(stderr, "halve: %s: what is written is y4m\n", o->output), 2;
    if (o->output)
        return -1;
    return usage(stderr), 2;
}

static picture_plane plane_of(const y4m_info *layout, int plane, const y4m_info *extent, uint8_t *frame)
{
    return (picture_plane){frame + y4m_plane_offset(layout, plane), y4m_row_bytes(layout, plane),
                           y4m_plane_width(extent, plane), y4m_plane_height(extent, plane),
                           y4m_facts(layout->layout)->bits};
}

static void copy_plane(const picture_plane *out, const picture_plane *in, size_t row_bytes)
{
    for (int y = 0; y < out->height; y++)
        memcpy((uint8_t *)out->data + (size_t)y * out->stride_bytes, (uint8_t *)in->data + (size_t)y * in->stride_bytes,
               row_bytes);
}

static void make_frame(job *j)
{
    for (int plane = 0; plane < y4m_planes(&j->in.info); plane++) {
        picture_plane in = plane_of(&j->in.info, plane, &j->cropped, j->frame);
        picture_plane out = plane_of(&j->out.info, plane, &j->out.info, j->result);
        if (j->crop_only)
            copy_plane(&out, &in, y4m_row_bytes(&j->cropped, plane));
        else
            picture_halve(&out, &in, 0, out.height, j->scratch);
    }
}

/* The first frame was read by set_up. */
static int run(job *j, const options *o)
{
    progress p;
    y4m_status status = Y4M_OK;
    progress_start(&p, j->total, o->quiet);
    while (status == Y4M_OK) {
        make_frame(j);
        if (y4m_write_frame(&j->out, j->result))
            break;
        progress_step(&p);
        status = y4m_read_frame(&j->in, j->frame);
    }
    progress_break(&p);
    int code = status > Y4M_END ? fail(o->input, &j->in.error) : 0;
    if (y4m_writer_close(&j->out))
        code = fail(o->output, &j->out.error);
    if (code)
        return code;
    progress_end(&p);
    return 0;
}

/* Before the output loses what it held: there may be none. */
static int read_first(job *j, const options *o)
{
    j->total = y4m_frames_expected(&j->in);
    const y4m_status status = y4m_read_frame(&j->in, j->frame);
    if (status == Y4M_END)
        return fprintf(stderr, "halve: %s: there is not a single frame in it\n", o->input), 1;
    return status ? fail(o->input, &j->in.error) : 0;
}

static int set_up(job *j, const options *o)
{
    if ((j->input = files_add(&j->files, FILES_READ, "the input", o->input)) < 0 ||
        (j->output = files_add(&j->files, FILES_VIDEO, "the output", o->output)) < 0)
        return fail_files(&j->files);
    if (y4m_reader_open(&j->in, files_fd(&j->files, j->input), stop_flag()))
        return fail(o->input, &j->in.error);
    j->cropped = j->in.info;
    j->cropped.width -= j->cropped.width % 4;
    j->cropped.height -= j->cropped.height % 4;
    if (j->cropped.width == 0 || j->cropped.height == 0)
        return fprintf(stderr, "halve: %s: smaller than 4 x 4\n", o->input), 1;
    y4m_info result = j->cropped;
    if (!o->crop_only)
        result.width /= 2, result.height /= 2;
    j->crop_only = o->crop_only;
    j->frame = malloc(y4m_frame_bytes(&j->in.info));
    j->result = malloc(y4m_frame_bytes(&result));
    j->scratch = malloc(picture_halve_scratch(j->cropped.width));
    if (!j->frame || !j->result || !j->scratch)
        return fputs("halve: out of memory\n", stderr), 1;
    if (read_first(j, o))
        return 1;
    if (!files_empty(&j->files))
        return fail_files(&j->files);
    if (y4m_writer_open(&j->out, files_take(&j->files, j->output), &result, stop_flag()))
        return fail(o->output, &j->out.error);
    return 0;
}

int main(int argc, char **argv)
{
    static job j;
    options o;
    files_begin(&j.files);
    int code = read_options(argc, argv, &o);
    if (code >= 0)
        return code;
    stop_catch();
    code = set_up(&j, &o);
    if (code == 0)
        code = run(&j, &o);
    files_end(&j.files);
    free(j.frame);
    free(j.result);
    free(j.scratch);
    return code;
}
