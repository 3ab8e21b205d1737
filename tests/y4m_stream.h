/* y4m_stream.h - a stream made by hand, byte for byte, and what reads it. Relies on y4m_rig.h. */
#ifndef BS_TEST_Y4M_STREAM_H
#define BS_TEST_Y4M_STREAM_H

#include "y4m_rig.h"

enum { STREAM_MAX = 8192 };

typedef struct stream {
    uint8_t bytes[STREAM_MAX];
    size_t size;
} stream;

static inline void append(stream *s, const void *bytes, size_t size)
{
    memcpy(s->bytes + s->size, bytes, size);
    s->size += size;
}

static inline void append_text(stream *s, const char *text) { append(s, text, strlen(text)); }

static inline void append_frame(stream *s, size_t size)
{
    append_text(s, "FRAME\n");
    for (size_t i = 0; i < size; i++)
        s->bytes[s->size++] = (uint8_t)(i * 7 + 1);
}

/* The reading end of a pipe that holds the stream; small enough never to block. */
static inline int pipe_with(const stream *s, size_t size)
{
    int ends[2];
    if (pipe(ends) || write(ends[1], s->bytes, size) != (ssize_t)size) {
        perror("pipe");
        exit(2);
    }
    close(ends[1]);
    return ends[0];
}

static inline int file_with(const stream *s, size_t size)
{
    char path[256];
    int fd = temporary_file(path);
    if (write(fd, s->bytes, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0) {
        perror(path);
        exit(2);
    }
    unlink(path);
    return fd;
}

static const char header_5x3[] = "YUV4MPEG2 W5 H3 F25:1 C420jpeg\n";
enum { FRAME_5X3 = 5 * 3 + 2 * 3 * 2 };

#endif
