/* video_sr: doubles the size of y4m video with a routed network, in a stream, in fixed memory.
 *
 * Owns: the flow of frames from input to output and the messages of a run.
 * Relies on: the library through upscaler.h; stream_options.h, y4m.h, picture.h, quality.h, progress.h, report.h.
 * Must never: write anything but video to standard output, or leave half a frame in a file.
 */
#define _POSIX_C_SOURCE 200809L
#include "files.h"
#include "options.h"
#include "picture.h"
#include "progress.h"
#include "quality.h"
#include "report.h"
#include "stop.h"
#include "upscaler.h"
#include "y4m.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct run {
    video_options options;
    files files;
    y4m_reader in, reference;
    y4m_writer out, map;
    y4m_info twice;
    int input, output, reference_file, map_file, stats_file; /* of files */
    upscaler up;
    stream_tools tools;
    progress shown;
    uint8_t *buffers, *frame, *ahead, *result, *expected, *tinted;
    void *scratch, *page;
    uint64_t frame_bytes;
    bool is_ahead; /* the next frame was read already, into `ahead`, or the end was found: */
    y4m_status ahead_status;
    int64_t total; /* frames to come; -1: not known */
    double psnr_sum, ssim_sum, network_seconds, waited_seconds;
    int64_t measured;
} run;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool complain(run *r, const char *what, const char *why)
{
    progress_break(&r->shown);
    fprintf(stderr, "video_sr: %s%s%s\n", what, *what ? ": " : "", why);
    return false;
}

static bool complain_y4m(run *r, const char *path, const y4m_error *error)
{
    char text[320];
    y4m_message(error, text, sizeof text);
    return complain(r, strcmp(path, "-") == 0 ? "standard stream" : path, text);
}

static bool complain_system(run *r, const char *path)
{
    char text[160];
    snprintf(text, sizeof text, "cannot write: %s", strerror(errno));
    return complain(r, path, text);
}

/* What a pipe was given of a frame cannot be taken back. */
static bool complain_stopped(run *r, const y4m_error *error)
{
    char text[96];
    if (error->missing_bytes == 0)
        return complain(r, "", "stopped by a signal; what was written is whole");
    snprintf(text, sizeof text, "stopped by a signal inside frame %lld, which the pipe did not take",
             (long long)error->frame);
    return complain(r, "", text);
}

static bool complain_reading(run *r, const char *path, y4m_status status, const y4m_reader *reader)
{
    if (status != Y4M_STOPPED)
        return complain_y4m(r, path, &reader->error);
    return complain(r, "",
                    r->out.fd < 0 ? "stopped by a signal; nothing was written"
                                  : "stopped by a signal; what was written is whole");
}

/* ------------------------------------------------------------------------------------------------- opening */

/* Opens what is named; nothing where nothing is. */
static bool add_file(run *r, int *number, files_use use, const char *role, const char *path)
{
    *number = path ? files_add(&r->files, use, role, path) : -1;
    return !path || *number >= 0 ||
           (*stop_flag() ? complain(r, "", "stopped by a signal") : complain(r, "", r->files.message));
}

/* All files, before anything is done. What is written keeps its old content until it is certain that something will
 * be. */
static bool open_files(run *r)
{
    const video_options *o = &r->options;
    int model;
    if (!add_file(r, &r->input, FILES_READ, "the input", o->input) ||
        !add_file(r, &r->reference_file, FILES_READ, "the reference", o->reference) ||
        !add_file(r, &model, FILES_NAMED, "the model", o->model) ||
        !add_file(r, &r->output, FILES_VIDEO, "the output", o->output) ||
        !add_file(r, &r->map_file, o->map_is_png ? FILES_WRITE : FILES_VIDEO, "the map", o->map) ||
        !add_file(r, &r->stats_file, FILES_WRITE, "the statistics", o->stats))
        return false;
    return stream_tools_open(&r->tools, &o->stream, &r->files, &r->up.error) || complain(r, "", r->up.error.message);
}

static bool open_reader(run *r, y4m_reader *reader, int number, const char *path)
{
    const y4m_status status = y4m_reader_open(reader, files_fd(&r->files, number), stop_flag());
    return status == Y4M_OK || complain_reading(r, path, status, reader);
}

static bool open_input(run *r)
{
    if (!open_reader(r, &r->in, r->input, r->options.input))
        return false;
    r->twice = r->in.info;
    r->twice.width *= 2;
    r->twice.height *= 2;
    if (r->in.info.width > Y4M_SIDE_MAX / 2 || r->in.info.height > Y4M_SIDE_MAX / 2)
        return complain(r, r->options.input, "twice its size would be beyond 16384 pixels a side");
    return true;
}

static bool open_reference(run *r)
{
    if (!r->options.reference)
        return true;
    if (!open_reader(r, &r->reference, r->reference_file, r->options.reference))
        return false;
    const y4m_info *i = &r->reference.info;
    char text[160];
    if (i->width == r->twice.width && i->height == r->twice.height &&
        y4m_facts(i->layout)->bits == y4m_facts(r->twice.layout)->bits)
        return true;
    snprintf(text, sizeof text, "the reference is %dx%d %s, the output %dx%d %s", i->width, i->height,
             y4m_facts(i->layout)->name, r->twice.width, r->twice.height, y4m_facts(r->twice.layout)->name);
    return complain(r, r->options.reference, text);
}

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* One block: input frame (two for a GPU), output frame, and what was asked for beside them. */
static bool take_buffers(run *r)
{
    const video_options *o = &r->options;
    const size_t in = rounded(y4m_frame_bytes(&r->in.info)), out = rounded(y4m_frame_bytes(&r->twice));
    const size_t reference = o->reference ? rounded(y4m_frame_bytes(&r->reference.info)) : 0;
    const size_t map = o->map && !o->map_is_png ? out : 0,
                 page = o->map_is_png ? rounded(report_map_bytes(&r->twice)) : 0;
    const size_t ahead = o->device.cuda ? in : 0;
    size_t scratch = picture_double_scratch(r->in.info.width);
    const size_t ssim = o->reference ? quality_ssim_scratch(r->twice.width) : 0;
    scratch = rounded(scratch > ssim ? scratch : ssim);
    r->frame_bytes = in + ahead + out + reference + map + page + scratch;
    r->buffers = aligned_alloc(64, r->frame_bytes);
    if (!r->buffers)
        return complain(r, "", "not enough memory for the frames");
    r->frame = r->buffers;
    r->ahead = ahead ? r->frame + in : r->frame;
    r->result = r->frame + in + ahead;
    r->expected = r->result + out;
    r->tinted = r->expected + reference;
    r->page = r->tinted + map;
    r->scratch = r->tinted + map + page;
    return true;
}

static bool open_writer(run *r, y4m_writer *writer, int number, const char *path)
{
    const y4m_status status = y4m_writer_open(writer, files_take(&r->files, number), &r->twice, stop_flag());
    return status == Y4M_OK ||
           (status == Y4M_STOPPED ? complain_stopped(r, &writer->error) : complain_y4m(r, path, &writer->error));
}

static bool read_reference(run *r)
{
    const y4m_status status = y4m_read_frame(&r->reference, r->expected);
    if (status == Y4M_END)
        return complain(r, r->options.reference, "the reference has fewer frames than the input");
    return status == Y4M_OK || complain_reading(r, r->options.reference, status, &r->reference);
}

/* Before anything is written: there may be none, and then old results stay. */
static bool read_first(run *r)
{
    r->total = y4m_frames_expected(&r->in);
    if (r->options.frames > 0 && (r->total < 0 || r->total > r->options.frames))
        r->total = r->options.frames;
    r->is_ahead = true;
    r->ahead_status = y4m_read_frame(&r->in, r->ahead);
    if (r->ahead_status == Y4M_END)
        return complain(r, r->options.input, "there is not a single frame in it");
    if (r->ahead_status != Y4M_OK)
        return complain_reading(r, r->options.input, r->ahead_status, &r->in);
    return !r->options.reference || read_reference(r);
}

/* When the first frame is there: nothing is refused from here on. */
static bool open_output(run *r)
{
    if (*stop_flag())
        return complain(r, "", "stopped by a signal; nothing was written");
    if (!files_empty(&r->files))
        return complain(r, "", r->files.message);
    return open_writer(r, &r->out, r->output, r->options.output) &&
           (!r->options.map || r->options.map_is_png || open_writer(r, &r->map, r->map_file, r->options.map));
}

/* -------------------------------------------------------------------------------------------------- frames */

static picture_plane plane_of(const y4m_info *info, uint8_t *frame, int plane)
{
    const picture_plane p = {frame + y4m_plane_offset(info, plane), y4m_row_bytes(info, plane),
                             y4m_plane_width(info, plane), y4m_plane_height(info, plane),
                             y4m_facts(info->layout)->bits};
    return p;
}

static void double_chroma(run *r)
{
    const y4m_layout_facts *facts = y4m_facts(r->in.info.layout);
    for (int k = 1; k < y4m_planes(&r->in.info); k++) {
        const picture_plane from = plane_of(&r->in.info, r->frame, k), to = plane_of(&r->twice, r->result, k);
        picture_double(&to, &from, facts->cosited_x ? PICTURE_COSITED : PICTURE_BETWEEN,
                       facts->cosited_y ? PICTURE_COSITED : PICTURE_BETWEEN, 0, to.height, r->scratch);
    }
}

static bool measure(run *r)
{
    if (!r->options.reference)
        return true;
    if (r->measured > 0 && !read_reference(r))
        return false;
    const picture_plane a = plane_of(&r->twice, r->result, 0), b = plane_of(&r->reference.info, r->expected, 0);
    r->psnr_sum += quality_psnr(&a, &b, 0);
    r->ssim_sum += quality_ssim(&a, &b, 0, r->scratch);
    r->measured++;
    return true;
}

static bool write_frame(run *r, y4m_writer *writer, const void *frame, const char *path)
{
    const y4m_status status = y4m_write_frame(writer, frame);
    return status == Y4M_OK ||
           (status == Y4M_STOPPED ? complain_stopped(r, &writer->error) : complain_y4m(r, path, &writer->error));
}

static bool write_map(run *r)
{
    upscaler_map map;
    if (!r->options.map || r->options.map_is_png)
        return true;
    upscaler_last(&r->up, &map);
    memcpy(r->tinted, r->result, y4m_frame_bytes(&r->twice));
    report_tint(&r->twice, r->tinted, &map);
    return write_frame(r, &r->map, r->tinted, r->options.map);
}

/* While a GPU works. Where the CPU does, nothing would be gained, and live video would come later. */
static void read_ahead(run *r)
{
    r->is_ahead = r->up.gpu.used && (r->options.frames < 0 || r->out.frames + 1 < r->options.frames);
    if (r->is_ahead)
        r->ahead_status = y4m_read_frame(&r->in, r->ahead);
}

/* Into r->frame. What a GPU had read ahead is copied: its tables stay as they are while buffers do. */
static y4m_status next_frame(run *r)
{
    if (*stop_flag())
        return Y4M_STOPPED;
    if (!r->is_ahead)
        return y4m_read_frame(&r->in, r->frame);
    if (r->ahead_status == Y4M_OK && r->ahead != r->frame)
        memcpy(r->frame, r->ahead, y4m_frame_bytes(&r->in.info));
    return r->ahead_status;
}

/* What the library says of a file begins with the file's name already. */
static bool complain_network(run *r, const char *why)
{
    const char *what = device_found(&r->up.gpu, &r->options.device) ? r->options.model : "--device cuda";
    return complain(r, files_is_named(why, what) ? "" : what, why);
}

/* Luma by the network; beside it what does not need its result. */
static bool enlarge(run *r)
{
    const ptrdiff_t sample = (ptrdiff_t)y4m_sample_bytes(&r->in.info);
    const picture_plane from = plane_of(&r->in.info, r->frame, 0), to = plane_of(&r->twice, r->result, 0);
    const double since = seconds();
    if (!upscaler_submit(&r->up, from.data, (ptrdiff_t)from.stride_bytes / sample, to.data,
                         (ptrdiff_t)to.stride_bytes / sample, r->options.reuse))
        return complain(r, "network", r->up.error.message);
    const double submitted = seconds();
    double_chroma(r);
    read_ahead(r);
    const double waits = seconds();
    if (!upscaler_wait(&r->up))
        return r->out.fd < 0 ? complain_network(r, r->up.error.message)
                             : complain(r, "network", r->up.error.message);
    const double end = seconds();
    r->network_seconds += (r->up.gpu.used ? end : submitted) - since;
    r->waited_seconds += end - waits;
    return true;
}

static bool do_frame(run *r)
{
    return enlarge(r) && (r->out.fd >= 0 || open_output(r)) && measure(r) &&
           write_frame(r, &r->out, r->result, r->options.output) && write_map(r);
}

static bool do_frames(run *r)
{
    progress_start(&r->shown, r->total, r->options.quiet);
    while (r->options.frames < 0 || r->out.frames < r->options.frames) {
        const y4m_status status = next_frame(r);
        if (status == Y4M_END)
            return true;
        if (status != Y4M_OK)
            return complain_reading(r, r->options.input, status, &r->in);
        if (!do_frame(r))
            return false;
        progress_step(&r->shown);
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------- the run */

static bool finish(run *r, double since)
{
    const int64_t frames = r->out.frames;
    run_facts facts = {.options = &r->options,
                       .up = &r->up,
                       .out = &r->twice,
                       .frames = frames,
                       .seconds = seconds() - since,
                       .seconds_network = r->network_seconds,
                       .seconds_waited = r->waited_seconds,
                       .has_reference = r->measured > 0,
                       .frame_bytes = r->frame_bytes};
    if (r->measured > 0) {
        facts.psnr = r->psnr_sum / (double)r->measured;
        facts.ssim = r->ssim_sum / (double)r->measured;
    }
    stream_facts_get(&facts.stream, r->up.plan, r->up.session);
    progress_end(&r->shown);
    if (r->options.map_is_png) {
        upscaler_map map;
        upscaler_last(&r->up, &map);
        FILE *png = files_stream(&r->files, r->map_file);
        if (!png || !report_map_png(png, &r->twice, r->result, &map, r->page))
            return complain_system(r, r->options.map);
    }
    upscaler_stop(&r->up); /* its readers would write to what --stats looks at */
    if (!r->options.quiet || r->measured > 0)
        report_summary(&facts);
    FILE *stats = r->options.stats ? files_stream(&r->files, r->stats_file) : NULL;
    return !r->options.stats || (stats && report_json(stats, &facts)) || complain_system(r, r->options.stats);
}

static bool open_network(run *r)
{
    const y4m_info *i = &r->in.info;
    const bs_error *e = &r->up.error;
    if (!upscaler_open_with(&r->up, &r->options, &r->tools, i->width, i->height, y4m_facts(i->layout)->bits))
        return complain_network(r, e->message);
    if (r->up.gpu.fallback[0])
        complain(r, "--device cuda", r->up.gpu.fallback);
    return true;
}

/* After the session: the profile's last events are written now. */
static bool close_network(run *r, bool ok)
{
    uint64_t dropped;
    upscaler_close(&r->up);
    if (!stream_tools_close(&r->tools, &dropped) && ok)
        return *stop_flag() ? complain(r, "", "stopped by a signal; the profile or the trace is not whole")
                            : complain_system(r, "the profile or the trace");
    if (dropped > 0 && !r->options.quiet)
        fprintf(stderr, "the profile lacks %llu events, for which its ring had no room\n", (unsigned long long)dropped);
    return ok;
}

static bool do_run(run *r)
{
    if (!open_files(r) || !open_input(r) || !open_reference(r) || !take_buffers(r) || !open_network(r))
        return false;
    const double since = seconds();
    const bool done = read_first(r) && do_frames(r);
    bool closed = true;
    if (r->out.fd >= 0 && y4m_writer_close(&r->out) != Y4M_OK && done)
        closed = complain_y4m(r, r->options.output, &r->out.error);
    if (r->map.fd >= 0 && y4m_writer_close(&r->map) != Y4M_OK && done)
        closed = complain_y4m(r, r->options.map, &r->map.error) && closed;
    return done && closed && finish(r, since);
}

int main(int argc, char **argv)
{
    static run r; /* the reader alone is 4 KiB of buffer: not on the stack */
    char message[160];
    files_begin(&r.files);
    r.out.fd = r.map.fd = -1; /* not open */
    r.shown.quiet = true; /* until frames begin */
    const char *wrong = options_parse(&r.options, argc, argv, message, sizeof message);
    if (wrong) {
        fprintf(stderr, "video_sr: %s\n", wrong);
        return 2;
    }
    if (r.options.help) {
        fputs(options_usage(), stdout);
        return 0;
    }
    stop_catch();
    const bool ok = close_network(&r, do_run(&r));
    files_end(&r.files); /* after the session, whose readers and profile may use them */
    free(r.buffers);
    return ok ? 0 : 1;
}
