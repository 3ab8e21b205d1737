/* y4m.h: reading and writing YUV4MPEG2 streams, frame by frame.
 *
 * Owns: the stream header (y4m.c) and the flow of frames through file descriptors (y4m_io.c).
 * Relies on: POSIX read, write, poll, fstat, ftruncate; files are opened by others (files.h). Memory is the caller's:
 *   the two objects below and one frame buffer of y4m_frame_bytes(); nothing here allocates.
 * Must never: guess a layout it does not know, hand out a frame that is not whole, print, or exit.
 *
 * A frame is one buffer: the planes Y, Cb, Cr one after the other, rows without padding. Samples of
 * 10 bit layouts are uint16_t, so such a buffer must be aligned for them.
 * Whoever writes ignores SIGPIPE and SIGXFSZ first: a reader gone and a file too large then show as Y4M_WRITE_FAILED.
 *
 *     y4m_reader in;                                    y4m_writer out;
 *     if (y4m_reader_open(&in, fd, stop)) ...           y4m_info twice = in.info;
 *     void *frame = memory;   (y4m_frame_bytes)         twice.width *= 2, twice.height *= 2;
 *     while (!(s = y4m_read_frame(&in, frame))) ...     if (y4m_writer_open(&out, fd, &twice, stop)) ...
 *     if (s != Y4M_END) fail(&in.error);                y4m_write_frame(&out, frame);
 */
#ifndef Y4M_H
#define Y4M_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    Y4M_SIDE_MAX = 16384,       /* widest and highest picture accepted */
    Y4M_HEADER_READ_MAX = 1024, /* bytes of a header line accepted, newline included */
    Y4M_HEADER_WRITE_MAX = 96,  /* bytes of a header line written: ffmpeg refuses longer ones */
    Y4M_FRAME_LINE_MAX = 80,    /* bytes of a FRAME line accepted: as ffmpeg */
    Y4M_QUOTE_MAX = 40,         /* bytes of a refused tag that an error repeats */
    Y4M_PLANES_MAX = 3
};

/* How to come by one. */
#define Y4M_FFMPEG "; ffmpeg -v error -i FILE -pix_fmt yuv420p -f yuv4mpegpipe - writes one, and - reads it"

/* One list makes the enum and the texts. The name of the thing at fault is added by y4m_message. */
#define Y4M_STATUS_LIST(X)                                                               \
    X(OK, "no error")                                                                    \
    X(END, "end of the stream")                                                          \
    X(STOPPED, "stopped by a signal")                                                    \
    X(EMPTY, "the input is empty")                                                       \
    X(NOT_Y4M, "the input is not a YUV4MPEG2 stream")                                    \
    X(HEADER_CUT, "the stream ends inside its header")                                   \
    X(HEADER_LONG, "the header line is longer than 1024 bytes")                          \
    X(BAD_TAG, "bad value in header tag")                                                \
    X(NO_SIZE, "the header lacks tag")                                                   \
    X(TOO_LARGE, "the picture is larger than 16384 x 16384 or than memory can address:") \
    X(BAD_LAYOUT, "this sample layout is not supported:")                                \
    X(INTERLACED, "interlaced video is not supported (deinterlace it first):")           \
    X(BAD_FRAME, "expected a FRAME line")                                                \
    X(SHORT_FRAME, "the stream ends inside a frame")                                     \
    X(READ_FAILED, "cannot read")                                                        \
    X(WRITE_FAILED, "cannot write")

typedef enum y4m_status {
#define X(name, text) Y4M_##name,
    Y4M_STATUS_LIST(X)
#undef X
        Y4M_STATUS_COUNT
} y4m_status;

/* All that y4m_message needs. Fields that a status does not use are zero. */
typedef struct y4m_error {
    y4m_status status;
    int system_error;          /* errno of the call that failed */
    int64_t frame;             /* the frame at fault, counted from 1 */
    uint64_t missing_bytes;    /* what a short frame lacks, its FRAME line included */
    char quote[Y4M_QUOTE_MAX]; /* the tag at fault, printable */
} y4m_error;

/* Writes one line without newline, cut to size bytes; the caller adds which file it was. Returns its
 * full length, as snprintf. */
size_t y4m_message(const y4m_error *error, char *buffer, size_t size);

/* Layout: name in the C tag, bits, halvings of chroma width and height, and whether chroma lies on
 * luma (1) or between two luma samples (0) in each direction. Bare 420 and 420p10 say nothing about
 * siting; they are read as left, as ffmpeg does for 420 and as H.264 means when it says nothing. */
#define Y4M_LAYOUT_LIST(X)                 \
    X(420JPEG, "420jpeg", 8, 1, 1, 0, 0)   \
    X(420MPEG2, "420mpeg2", 8, 1, 1, 1, 0) \
    X(420PALDV, "420paldv", 8, 1, 1, 1, 1) \
    X(420, "420", 8, 1, 1, 1, 0)           \
    X(422, "422", 8, 1, 0, 1, 0)           \
    X(444, "444", 8, 0, 0, 0, 0)           \
    X(MONO, "mono", 8, 0, 0, 0, 0)         \
    X(420P10, "420p10", 10, 1, 1, 1, 0)    \
    X(422P10, "422p10", 10, 1, 0, 1, 0)    \
    X(444P10, "444p10", 10, 0, 0, 0, 0)

typedef enum y4m_layout {
#define X(id, ...) Y4M_LAYOUT_##id,
    Y4M_LAYOUT_LIST(X)
#undef X
        Y4M_LAYOUT_COUNT
} y4m_layout;

typedef struct y4m_layout_facts {
    const char *name;
    int bits;
    int halved_x, halved_y;
    int cosited_x, cosited_y;
} y4m_layout_facts;

typedef enum y4m_range { Y4M_RANGE_UNSAID, Y4M_RANGE_LIMITED, Y4M_RANGE_FULL } y4m_range;

/* n:d as written; 0:0 is unknown; given tells a missing tag from 0:0. */
typedef struct y4m_ratio {
    bool given;
    int32_t n, d;
} y4m_ratio;

typedef struct y4m_info {
    int width, height;
    y4m_layout layout;
    y4m_range range;
    y4m_ratio rate, aspect;
    char interlacing;                 /* 'p', '?', or 0 where the tag is missing */
    char extra[Y4M_HEADER_WRITE_MAX]; /* other X tags, each preceded by a space */
} y4m_info;

/* Reads a header line, its newline not included. Tags unknown to the format are skipped. */
y4m_status y4m_parse_header(const char *line, size_t length, y4m_info *info, y4m_error *error);

/* Writes header line and newline and terminates it. X tags that would lengthen the line past
 * Y4M_HEADER_WRITE_MAX bytes are dropped; so is an aspect that does (ten-digit numbers). */
size_t y4m_format_header(const y4m_info *info, char line[Y4M_HEADER_WRITE_MAX + 1]);

const y4m_layout_facts *y4m_facts(y4m_layout layout);
int y4m_planes(const y4m_info *info);                 /* 1 for mono, else 3 */
int y4m_plane_width(const y4m_info *info, int plane); /* chroma of an odd width rounds up */
int y4m_plane_height(const y4m_info *info, int plane);
size_t y4m_sample_bytes(const y4m_info *info); /* 1, or 2 for 10 bit */
size_t y4m_row_bytes(const y4m_info *info, int plane);
size_t y4m_plane_bytes(const y4m_info *info, int plane);
size_t y4m_plane_offset(const y4m_info *info, int plane); /* where a plane begins in a frame */
size_t y4m_frame_bytes(const y4m_info *info);

/* Whether a file of this name is taken for something else than y4m, by its ending: "clip.mp4". */
bool y4m_misnamed(const char *path);

typedef struct y4m_reader {
    y4m_info info;
    y4m_error error;                   /* of the last call */
    int64_t frames;                    /* whole frames read */
    int fd;                            /* not closed here */
    const volatile sig_atomic_t *stop; /* may be NULL; nonzero ends a blocked read that a signal interrupts */
    uint64_t header_bytes;
    size_t begin, end; /* bytes of buffer not yet used */
    uint8_t buffer[4096];
} y4m_reader;

/* Opening reads the header. Reading waits, whether or not the descriptor blocks. It returns Y4M_END after the last
 * whole frame, and Y4M_SHORT_FRAME where the stream ends within one, whose part is then in the buffer. Codes of 10 bit
 * samples above 1023 come as 1023. */
y4m_status y4m_reader_open(y4m_reader *reader, int fd, const volatile sig_atomic_t *stop);
y4m_status y4m_read_frame(y4m_reader *reader, void *frame);

/* Frames that a regular file holds by its size, short last one not counted; -1 for a pipe.
 * Exact unless FRAME lines carry parameters. Ask before the first frame. */
int64_t y4m_frames_expected(const y4m_reader *reader);

typedef struct y4m_writer {
    y4m_info info;
    y4m_error error; /* the first one stays: later calls return it and write nothing */
    int64_t frames;  /* whole frames written */
    int fd;
    const volatile sig_atomic_t *stop; /* may be NULL; nonzero ends waiting for a pipe, inside a frame too */
    bool regular;        /* a file that can be cut back */
    int64_t whole_bytes; /* where the last whole frame ends in it */
} y4m_writer;

/* Opening writes the header. After a failed write a regular file is cut back to its last whole
 * frame, so that what is there stays valid; in a pipe the reader sees a short frame. A request to stop ends a frame
 * that a pipe does not take (Y4M_STOPPED, missing_bytes), never one that goes to a file.
 * Closing also closes fd unless it is standard output, and reports what only then shows. */
y4m_status y4m_writer_open(y4m_writer *writer, int fd, const y4m_info *info, const volatile sig_atomic_t *stop);
y4m_status y4m_write_frame(y4m_writer *writer, const void *frame);
y4m_status y4m_writer_close(y4m_writer *writer);

#endif
