/* y4m_rig.h - what tests of y4m share: files of their own, and streams that are read. Relies on video_check.h; POSIX.
 * Must never: leave a file behind. */
#ifndef BS_TEST_Y4M_RIG_H
#define BS_TEST_Y4M_RIG_H

#include <stdlib.h>
#include <unistd.h>

#include "../examples/video/y4m.h"
#include "video_check.h"

static inline const char *message(const y4m_error *error)
{
    static char text[256];
    y4m_message(error, text, sizeof text);
    return text;
}

/* A new empty file; path has room for 256 bytes. Returns its descriptor. */
static inline int temporary_file(char *path)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, 256, "%s/video_test_XXXXXX", folder && strlen(folder) < 200 ? folder : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) {
        perror("mkstemp");
        exit(2);
    }
    return fd;
}

static inline bool same_info(const y4m_info *a, const y4m_info *b)
{
    return a->width == b->width && a->height == b->height && a->layout == b->layout && a->range == b->range &&
           a->interlacing == b->interlacing && a->rate.given == b->rate.given && a->rate.n == b->rate.n &&
           a->rate.d == b->rate.d && a->aspect.given == b->aspect.given && a->aspect.n == b->aspect.n &&
           a->aspect.d == b->aspect.d && strcmp(a->extra, b->extra) == 0;
}

#endif
