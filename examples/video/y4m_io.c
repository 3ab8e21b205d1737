/* y4m_io.c: the flow of YUV4MPEG2 frames through file descriptors.
 *
 * Owns: the reader's buffer, waiting, and the promise that a frame counts only when whole.
 * Relies on: y4m.c for the header and the sizes; POSIX for the rest.
 * Must never: allocate, seek a stream that may be a pipe, or leave part of a frame in a regular file.
 */
#define _POSIX_C_SOURCE 200809L
#include "y4m.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Frames go between stream and memory as they are, and the stream is little-endian. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "10 bit y4m needs a little-endian host"
#endif

static y4m_status set(y4m_error *error, y4m_status status)
{
    memset(error, 0, sizeof *error);
    error->status = status;
    return status;
}

static y4m_status set_system(y4m_error *error, y4m_status status)
{
    int code = errno;
    set(error, status);
    error->system_error = code;
    return status;
}

/* --- waiting ------------------------------------------------------------------------------ */

static bool stopped(const volatile sig_atomic_t *stop) { return stop && *stop; }

/* After a read or write that did nothing: whether it is worth another try, which poll has waited for where the stream
 * belongs to somebody who does not block. */
static bool worth_another(int fd, short event)
{
    struct pollfd wanted = {.fd = fd, .events = event};
    if (errno == EINTR)
        return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
        return false;
    return poll(&wanted, 1, -1) >= 0 || errno == EINTR;
}

/* --- reading ------------------------------------------------------------------------------ */

/* Like read, but waits, and goes on after a signal unless the caller wants to stop. */
static y4m_status read_some(y4m_reader *reader, void *to, size_t size, size_t *got)
{
    for (;;) {
        if (stopped(reader->stop))
            return set(&reader->error, Y4M_STOPPED);
        ssize_t n = read(reader->fd, to, size);
        if (n >= 0) {
            *got = (size_t)n;
            return Y4M_OK;
        }
        if (!worth_another(reader->fd, POLLIN))
            return set_system(&reader->error, Y4M_READ_FAILED);
    }
}

/* Reads up to and without the newline; *whole is false where the stream ended first or the line
 * is longer than room, and *length then tells which. */
static y4m_status read_line(y4m_reader *reader, char *line, size_t room, size_t *length, bool *whole)
{
    *length = 0;
    *whole = false;
    while (*length < room) {
        if (reader->begin == reader->end) {
            reader->begin = 0;
            y4m_status status = read_some(reader, reader->buffer, sizeof reader->buffer, &reader->end);
            if (status || reader->end == 0)
                return status;
        }
        char c = (char)reader->buffer[reader->begin++];
        if (c == '\n') {
            *whole = true;
            return Y4M_OK;
        }
        line[(*length)++] = c;
    }
    return Y4M_OK;
}

/* A stream that does not begin as it should is no stream cut short. */
static y4m_status header_failure(const char *line, size_t length)
{
    static const char magic[] = "YUV4MPEG2 ";
    size_t n = length < sizeof magic - 1 ? length : sizeof magic - 1;
    if (length == 0)
        return Y4M_EMPTY;
    if (memcmp(line, magic, n) != 0)
        return Y4M_NOT_Y4M;
    return length < Y4M_HEADER_READ_MAX ? Y4M_HEADER_CUT : Y4M_HEADER_LONG;
}

y4m_status y4m_reader_open(y4m_reader *reader, int fd, const volatile sig_atomic_t *stop)
{
    char line[Y4M_HEADER_READ_MAX];
    size_t length;
    bool whole;
    memset(reader, 0, offsetof(y4m_reader, buffer));
    reader->fd = fd;
    reader->stop = stop;
    y4m_status status = read_line(reader, line, sizeof line, &length, &whole);
    if (status)
        return status;
    if (!whole)
        return set(&reader->error, header_failure(line, length));
    reader->header_bytes = length + 1;
    return y4m_parse_header(line, length, &reader->info, &reader->error);
}

static y4m_status at_frame(y4m_reader *reader, y4m_status status, uint64_t missing)
{
    set(&reader->error, status);
    reader->error.frame = reader->frames + 1;
    reader->error.missing_bytes = missing;
    return status;
}

static y4m_status read_frame_line(y4m_reader *reader)
{
    static const char magic[] = "FRAME";
    enum { MAGIC = sizeof magic - 1 };
    char line[Y4M_FRAME_LINE_MAX];
    size_t length;
    bool whole;
    y4m_status status = read_line(reader, line, sizeof line, &length, &whole);
    if (status)
        return status;
    if (!whole && length == 0)
        return set(&reader->error, Y4M_END);
    bool good = memcmp(line, magic, length < MAGIC ? length : MAGIC) == 0 &&
                (length <= MAGIC || line[MAGIC] == ' ' || line[MAGIC] == '\r');
    if (!good || (whole && length < MAGIC) || length == sizeof line)
        return at_frame(reader, Y4M_BAD_FRAME, 0);
    if (whole)
        return Y4M_OK;
    uint64_t line_rest = length < MAGIC ? MAGIC + 1 - length : 1;
    return at_frame(reader, Y4M_SHORT_FRAME, line_rest + y4m_frame_bytes(&reader->info));
}

/* Sixteen bits may hold what ten cannot: such codes count as the largest. */
static void saturate(uint16_t *samples, size_t count, int bits)
{
    const uint16_t max = (uint16_t)((1 << bits) - 1);
    for (size_t i = 0; i < count; i++)
        samples[i] = samples[i] < max ? samples[i] : max;
}

y4m_status y4m_read_frame(y4m_reader *reader, void *frame)
{
    uint8_t *to = frame;
    size_t size = y4m_frame_bytes(&reader->info), have, got;
    y4m_status status = read_frame_line(reader);
    if (status)
        return status;
    have = reader->end - reader->begin;
    have = have < size ? have : size;
    memcpy(to, reader->buffer + reader->begin, have);
    reader->begin += have;
    while (have < size) {
        status = read_some(reader, to + have, size - have, &got);
        if (status)
            return status;
        if (got == 0)
            return at_frame(reader, Y4M_SHORT_FRAME, size - have);
        have += got;
    }
    if (y4m_sample_bytes(&reader->info) == 2)
        saturate(frame, size / 2, y4m_facts(reader->info.layout)->bits);
    reader->frames++;
    return set(&reader->error, Y4M_OK);
}

int64_t y4m_frames_expected(const y4m_reader *reader)
{
    struct stat facts;
    if (fstat(reader->fd, &facts) || !S_ISREG(facts.st_mode))
        return -1;
    /* What the buffer holds ahead has been read from the file already. */
    int64_t ahead = (int64_t)(reader->end - reader->begin);
    int64_t position = (int64_t)lseek(reader->fd, 0, SEEK_CUR);
    int64_t left = (int64_t)facts.st_size - position + ahead;
    return position < 0 ? -1 : left / (int64_t)(y4m_frame_bytes(&reader->info) + 6);
}

/* --- writing ------------------------------------------------------------------------------ */

/* Puts the file back to its last whole frame. Only what this writer has added is cut: a file that
 * goes on behind it was not ours to shorten. */
static void cut_back(y4m_writer *writer, size_t partial)
{
    struct stat facts;
    if (!writer->regular || fstat(writer->fd, &facts))
        return;
    if ((int64_t)facts.st_size != writer->whole_bytes + (int64_t)partial)
        return;
    if (ftruncate(writer->fd, (off_t)writer->whole_bytes) == 0)
        (void)lseek(writer->fd, (off_t)writer->whole_bytes, SEEK_SET);
}

static y4m_status write_failure(y4m_writer *writer, y4m_status status)
{
    if (status == Y4M_STOPPED)
        set(&writer->error, status);
    else
        set_system(&writer->error, status);
    writer->error.frame = writer->frames + 1;
    return status;
}

/* A file takes what it is given: a frame that was begun there is ended. A pipe may be full for ever. */
static y4m_status write_all(y4m_writer *writer, const void *bytes, size_t size, size_t *done)
{
    const uint8_t *from = bytes;
    while (size > 0) {
        if (!writer->regular && stopped(writer->stop))
            return write_failure(writer, Y4M_STOPPED);
        ssize_t n = write(writer->fd, from, size);
        if (n < 0 && worth_another(writer->fd, POLLOUT))
            continue;
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return write_failure(writer, Y4M_WRITE_FAILED);
        }
        from += n;
        size -= (size_t)n;
        *done += (size_t)n;
    }
    return Y4M_OK;
}

/* One record (header, or FRAME line and planes) goes out whole or is taken back. */
static y4m_status write_record(y4m_writer *writer, const char *line, size_t length, const void *planes, size_t size)
{
    size_t done = 0;
    y4m_status status = write_all(writer, line, length, &done);
    if (!status)
        status = write_all(writer, planes, size, &done);
    if (status == Y4M_STOPPED && done > 0)
        writer->error.missing_bytes = length + size - done;
    if (status)
        cut_back(writer, done);
    else
        writer->whole_bytes += (int64_t)done;
    return status;
}

static void find_start(y4m_writer *writer)
{
    struct stat facts;
    writer->regular = fstat(writer->fd, &facts) == 0 && S_ISREG(facts.st_mode);
    if (!writer->regular)
        return;
    int flags = fcntl(writer->fd, F_GETFL);
    bool appends = flags != -1 && (flags & O_APPEND);
    writer->whole_bytes = appends ? (int64_t)facts.st_size : (int64_t)lseek(writer->fd, 0, SEEK_CUR);
}

y4m_status y4m_writer_open(y4m_writer *writer, int fd, const y4m_info *info, const volatile sig_atomic_t *stop)
{
    char line[Y4M_HEADER_WRITE_MAX + 1];
    memset(writer, 0, sizeof *writer);
    writer->info = *info;
    writer->fd = fd;
    writer->stop = stop;
    find_start(writer);
    size_t length = y4m_format_header(info, line);
    return write_record(writer, line, length, NULL, 0);
}

y4m_status y4m_write_frame(y4m_writer *writer, const void *frame)
{
    if (writer->error.status)
        return writer->error.status;
    y4m_status status = write_record(writer, "FRAME\n", 6, frame, y4m_frame_bytes(&writer->info));
    if (!status)
        writer->frames++;
    return status;
}

y4m_status y4m_writer_close(y4m_writer *writer)
{
    int failed = writer->fd != STDOUT_FILENO && close(writer->fd);
    writer->fd = -1;
    if (failed && !writer->error.status)
        set_system(&writer->error, Y4M_WRITE_FAILED);
    return writer->error.status;
}
