/* files.c: see files.h. */
#define _XOPEN_SOURCE 700
#include "files.h"

#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -------------------------------------------------------------------------------------- standard descriptors */

/* With the access that its users do not need: for them it stays as good as closed. */
static void take_closed(int fd)
{
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF)
        return;
    const int got = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (got >= 0 && got != fd) {
        dup2(got, fd);
        close(got);
    }
}

/* What prints cannot wait. O_NONBLOCK belongs to the open file, which others may share: this takes one of its own.
 * Where there is none to be had (sockets) it stays as it is. */
static void make_blocking(int fd)
{
    char path[32];
    struct stat facts;
    const int flags = fcntl(fd, F_GETFL);
    if (flags == -1 || !(flags & O_NONBLOCK) || fstat(fd, &facts) != 0 ||
        !(S_ISFIFO(facts.st_mode) || S_ISCHR(facts.st_mode)))
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int own =
        open(path, (flags & O_ACCMODE) | O_NONBLOCK | O_NOCTTY); /* a pipe without a reader must not block here */
    if (own < 0)
        return;
    if (fcntl(own, F_SETFL, flags & ~O_NONBLOCK) == 0)
        dup2(own, fd);
    close(own);
}

/* ---------------------------------------------------------------------------------------------------- messages */

static int refuse(files *f, const char *path, const char *what)
{
    snprintf(f->message, sizeof f->message, "%.200s: %s", path, what);
    return -1;
}

static int refuse_system(files *f, const char *path, const char *what, int code)
{
    snprintf(f->message, sizeof f->message, "%.200s: %s: %s", path, what, strerror(code));
    return -1;
}

/* ----------------------------------------------------------------------------------------------------- opening */

/* A pipe with a name is open when its other end is: a signal may come first. */
static int open_waiting(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC | O_NOCTTY, 0666);
    while (fd < 0 && errno == EINTR && !*stop_flag());
    return fd;
}

static int open_output(files_item *item)
{
    int fd = open_waiting(item->path, O_WRONLY);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    fd = open_waiting(item->path, O_WRONLY | O_CREAT);
    item->made = fd >= 0;
    return fd;
}

/* Standard input or output, unless it was closed when the program began. */
static int standard_fd(const files_item *item)
{
    const int fd = item->written ? STDOUT_FILENO : STDIN_FILENO, flags = fcntl(fd, F_GETFL);
    const int useless = item->written ? O_RDONLY : O_WRONLY;
    if (flags != -1 && (flags & O_ACCMODE) != useless)
        return fd;
    errno = EBADF;
    return -1;
}

static bool look(files_item *item)
{
    struct stat facts;
    if (fstat(item->fd, &facts) != 0)
        return false;
    item->regular = S_ISREG(facts.st_mode);
    item->unique = S_ISREG(facts.st_mode) || S_ISBLK(facts.st_mode);
    item->device = facts.st_dev;
    item->inode = facts.st_ino;
    return true;
}

/* Through links with names: the link was there before, and stays. */
static void unmake(const files_item *item)
{
    struct stat facts;
    char *path = item->made ? realpath(item->path, NULL) : NULL;
    if (path && stat(path, &facts) == 0 && facts.st_dev == item->device && facts.st_ino == item->inode &&
        facts.st_size == 0)
        unlink(path);
    free(path);
}

static void drop(files_item *item)
{
    if (item->fd >= 0 && !item->standard && !item->taken)
        close(item->fd);
    item->fd = -1;
}

static const files_item *same_file(const files *f, const files_item *item)
{
    for (int i = 0; item->unique && i < f->count; i++) {
        const files_item *other = &f->items[i];
        if (other->unique && other->device == item->device && other->inode == item->inode &&
            (other->written || item->written) &&
            !(other->standard && item->standard && other->written && item->written))
            return other;
    }
    return NULL;
}

/* Two videos in one pipe are none. */
static bool both_stdout(const files *f, const files_item *item)
{
    for (int i = 0; item->standard && item->written && i < f->count; i++)
        if (f->items[i].standard && f->items[i].written && f->items[i].fd == item->fd)
            return true;
    return false;
}

static int keep(files *f, files_item *item)
{
    const files_item *other = same_file(f, item);
    if (!other && !both_stdout(f, item)) {
        f->items[f->count] = *item;
        return f->count++;
    }
    if (other)
        snprintf(f->message, sizeof f->message, "%s and %s are the same file: %.200s", item->role, other->role,
                 item->path);
    else
        snprintf(f->message, sizeof f->message, "%s cannot go to standard output too", item->role);
    drop(item);
    unmake(item);
    return -1;
}

/* ------------------------------------------------------------------------------------------------------- calls */

void files_begin(files *f)
{
    memset(f, 0, sizeof *f);
    atomic_init(&f->emptied, false);
    signal(SIGXFSZ, SIG_IGN);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        take_closed(fd);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        make_blocking(fd);
    files_item messages = {
        .role = "standard error", .path = "standard error", .fd = STDERR_FILENO, .written = true, .standard = true};
    if (look(&messages))
        keep(f, &messages);
}

int files_add(files *f, files_use use, const char *role, const char *path)
{
    files_item item = {.role = role, .path = path, .fd = -1, .written = use >= FILES_WRITE, .last = use == FILES_LAST};
    if (f->count == FILES_MAX)
        return refuse(f, path, "too many files");
    item.standard = (use == FILES_READ || use == FILES_VIDEO) && strcmp(path, "-") == 0;
    if (item.standard)
        item.path = item.written ? "standard output" : "standard input";
    item.fd = item.standard ? standard_fd(&item) : item.written ? open_output(&item) : open_waiting(path, O_RDONLY);
    if (item.fd < 0)
        return item.standard ? refuse(f, item.path, "it is closed") : refuse_system(f, path, "cannot be opened", errno);
    if (!look(&item)) {
        drop(&item);
        return refuse_system(f, path, "cannot be opened", errno);
    }
    if (use == FILES_VIDEO && isatty(item.fd)) {
        drop(&item);
        return refuse(f, item.path, "refusing to write video to a terminal");
    }
    return keep(f, &item);
}

bool files_add_stdout(files *f)
{
    files_item item = {
        .role = "standard output", .path = "standard output", .fd = STDOUT_FILENO, .written = true, .standard = true};
    return !look(&item) || keep(f, &item) >= 0;
}

bool files_empty(files *f)
{
    const bool done = files_emptied(f);
    for (int i = 0; !done && i < f->count; i++) {
        const files_item *item = &f->items[i];
        if (item->written && !item->last && !item->standard && item->regular && item->fd >= 0 &&
            ftruncate(item->fd, 0) != 0) {
            refuse_system(f, item->path, "cannot be emptied", errno);
            return false;
        }
    }
    atomic_store(&f->emptied, true);
    return true;
}

bool files_is_named(const char *message, const char *path)
{
    const char *end = strstr(message, ": ");
    const size_t named = end ? (size_t)(end - message) : 0, length = strlen(path);
    return named > 0 && named <= length && memcmp(path + length - named, message, named) == 0;
}

bool files_emptied(files *f) { return atomic_load(&f->emptied); }

int files_fd(const files *f, int number) { return f->items[number].fd; }

int files_take(files *f, int number)
{
    f->items[number].taken = true;
    return f->items[number].fd;
}

FILE *files_stream(files *f, int number)
{
    files_item *item = &f->items[number];
    if (item->last && item->regular && ftruncate(item->fd, 0) != 0)
        return NULL;
    FILE *stream = fdopen(item->fd, item->written ? "w" : "r");
    item->taken = item->taken || stream;
    return stream;
}

bool files_close(FILE *stream)
{
    const bool good = fflush(stream) == 0 && !ferror(stream);
    const int why = errno;
    const bool closed = fclose(stream) == 0;
    if (!good)
        errno = why ? why : EIO;
    return good && closed;
}

void files_end(files *f)
{
    for (int i = 0; i < f->count; i++) {
        const bool unused = !files_emptied(f) || (f->items[i].last && !f->items[i].taken);
        drop(&f->items[i]);
        if (unused)
            unmake(&f->items[i]);
    }
    f->count = 0;
}
