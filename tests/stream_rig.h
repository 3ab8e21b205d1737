/* stream_rig.h: a platform and a disk that behave as badly as they may.
 *
 * Owns: a platform around the default one, that counts, refuses and pretends; a pread in the place of libc's (Linux),
 *   that is interrupted and gives less than asked.
 * Relies on: brainstorm.h. Included by one file of a program, before everything else.
 * Must never: behave badly while `script` is all 0.
 */
#ifndef STREAM_RIG_H
#define STREAM_RIG_H

#if defined(__linux__)
#define _GNU_SOURCE /* syscall */
#else
#define _POSIX_C_SOURCE 200809L
#endif
#include "brainstorm.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* --- reads that are interrupted ---------------------------------------------------------------------------- */

/* every n-th call; all 0: as the system does */
static struct { int calls, interrupt, shorten, fail_at, cut_at, end_at; } script;

#if defined(__linux__)
#include <sys/syscall.h>

/* What a signal or a slow disk does to a read; the call numbered fail_at fails, cut_at gives half of what it read.
 * After end_at: what a direct read says that goes on from the end of a file. */
ssize_t pread(int file, void *buffer, size_t bytes, off_t offset)
{
    const bool scripted = script.interrupt || script.shorten || script.fail_at || script.cut_at || script.end_at;
    const int call = scripted ? ++script.calls : 0;
    if (script.interrupt && call % script.interrupt == 0) {
        errno = EINTR;
        return -1;
    }
    if (script.fail_at && call == script.fail_at) {
        errno = EIO;
        return -1;
    }
    if (script.end_at && call > script.end_at) {
        errno = EINVAL;
        return -1;
    }
    if (script.shorten && call % script.shorten == 0 && bytes > 512)
        bytes = (bytes / 2 + 511) & ~(size_t)511; /* short, and still a direct read */
    /* low and high half where a word has 32 bits */
    const ssize_t got = (ssize_t)syscall(SYS_pread64, file, buffer, bytes, (long)offset, 0L);
    return script.cut_at && call == script.cut_at && got > 1 ? got / 2 + 1 : got;
}
#endif

/* --- the platform ------------------------------------------------------------------------------------------ */

/* How the platform opens a second handle. */
typedef enum direct_kind {
    AS_IS,
    PRETEND_512,
    PRETEND_4096,
    NO_DIRECT,
    OPEN_FAILS,
    BUFFERED_AFTER_ALL,
    ALIGNMENT_0,
    ALIGNMENT_3,
    ALIGNMENT_8192,
    OTHER_SIZE
} direct_kind;

typedef struct rig {
    bs_platform platform;
    const bs_platform *real;
    direct_kind kind;
    int64_t direct;     /* the second handle; -1 */
    uint32_t alignment; /* that its reads must have */
    int opened, refused, direct_reads, forgotten;
} rig;

static int64_t rig_open(void *user, const char *path, uint64_t *size_bytes)
{
    rig *r = user;
    const int64_t file = r->real->file_open(r->real->user, path, size_bytes);
    r->opened += file >= 0;
    return file;
}

static int64_t rig_open_direct(void *user, const char *path, void *probe, uint64_t *size_bytes, uint32_t *alignment)
{
    static const uint32_t alignments[] = {0, 512, 4096, 0, 0, 1, 0, 3, 8192, 512};
    rig *r = user;
    if (r->kind == OPEN_FAILS)
        return -1;
    if (r->kind == AS_IS) {
        r->direct = r->real->file_open_direct(r->real->user, path, probe, size_bytes, alignment);
        r->opened += r->direct >= 0;
        r->alignment = *alignment;
        return r->direct;
    }
    memset(probe, 0xa5, BS_PROBE_BYTES); /* it is ours to write */
    r->refused += (uintptr_t)probe % BS_PROBE_BYTES != 0;
    r->direct = rig_open(user, path, size_bytes);
    *size_bytes += r->kind == OTHER_SIZE;
    *alignment = r->alignment = alignments[r->kind];
    return r->direct;
}

static int64_t rig_read(void *user, int64_t file, uint64_t offset, void *buffer, size_t bytes)
{
    rig *r = user;
    if (file == r->direct) {
        r->direct_reads++;
        if (offset % r->alignment || bytes % r->alignment || (uintptr_t)buffer % r->alignment) {
            r->refused++;
            return -1;
        }
    }
    return r->real->file_read(r->real->user, file, offset, buffer, bytes);
}

static void rig_close(void *user, int64_t file)
{
    rig *r = user;
    r->opened--;
    if (file == r->direct)
        r->direct = -1;
    r->real->file_close(r->real->user, file);
}

static void rig_forget(void *user, int64_t file, uint64_t offset, uint64_t bytes)
{
    rig *r = user;
    r->forgotten++;
    if (r->real->file_forget)
        r->real->file_forget(r->real->user, file, offset, bytes);
}

static inline const bs_platform *rig_init(rig *r, direct_kind kind)
{
    memset(r, 0, sizeof *r);
    r->real = bs_platform_default();
    r->platform = *r->real;
    r->kind = kind;
    r->direct = -1;
    r->platform.user = r;
    r->platform.file_open = rig_open;
    r->platform.file_read = rig_read;
    r->platform.file_close = rig_close;
    r->platform.file_open_direct = kind == NO_DIRECT ? NULL : rig_open_direct;
    r->platform.file_forget = rig_forget;
    return &r->platform;
}

#endif
