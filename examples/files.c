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

static files *_Atomic current; /* for streams, which do not know what they are of, and for signals */

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

/* What must have a size is not waited for. */
static int open_whole(const char *path) { return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); }

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
    item->owner = facts.st_uid;
    item->group = facts.st_gid;
    item->mode = facts.st_mode & 0777;
    item->bytes = facts.st_size > 0 ? (uint64_t)facts.st_size : 0;
    if (S_ISDIR(facts.st_mode))
        errno = EISDIR;
    return !S_ISDIR(facts.st_mode);
}

/* Whether the name without links is still that of this file. */
static bool is_there(const files_item *item)
{
    struct stat facts;
    return item->real && stat(item->real, &facts) == 0 && facts.st_dev == item->device && facts.st_ino == item->inode;
}

/* Through links with names: the link was there before, and stays. */
static void unmake(const files_item *item)
{
    struct stat facts;
    if (item->made && is_there(item) && stat(item->real, &facts) == 0 && facts.st_size == 0)
        unlink(item->real);
}

static void drop(files_item *item)
{
    if (item->fd >= 0 && !item->standard && !item->taken)
        close(item->fd);
    item->fd = -1;
}

/* ---------------------------------------------------------------------------------- what is written beside a file */

/* Its name without links, and that a file can be made beside it: refused now, and not when the results are there. A
 * regular file without a name (that was removed since) is written to as it is. */
static bool find_real(files_item *item)
{
    char *const real = item->written && item->regular && !item->standard ? realpath(item->path, NULL) : NULL;
    item->real = real;
    if (real && !is_there(item)) {
        free(real);
        item->real = NULL;
    }
    if (!item->real || item->video)
        return true;
    char *const end = strrchr(item->real, '/');
    *end = 0;
    const bool can = access(end == item->real ? "/" : item->real, W_OK | X_OK) == 0;
    *end = '/';
    if (can && item->made) { /* until it is whole it is not there, and what its number is now may be another file's */
        unlink(item->real);
        item->made = item->unique = false;
    }
    return can;
}

/* In its folder, so that it can take its name; with the rights that the file has, and its owner's where that can be. */
static int open_beside(files_item *item)
{
    static const char name[] = ".brainstorm.XXXXXX";
    const size_t folder = (size_t)(strrchr(item->real, '/') + 1 - item->real);
    char *const beside = malloc(folder + sizeof name);
    if (!beside)
        return -1;
    memcpy(beside, item->real, folder);
    memcpy(beside + folder, name, sizeof name);
    const int fd = mkstemp(beside);
    if (fd < 0) {
        free(beside);
        return -1;
    }
    item->beside = beside;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    const bool owned = fchown(fd, item->owner, item->group) == 0;
    fchmod(fd, owned ? item->mode : item->mode & 0755);
    return fd;
}

static void remove_beside(files_item *item)
{
    char *const beside = item->beside;
    if (!beside)
        return;
    const int why = errno;
    unlink(beside);
    item->beside = NULL;
    free(beside);
    errno = why;
}

/* Whether the file holds now what was written beside it. */
static bool keep_beside(files_item *item)
{
    char *const beside = item->beside;
    if (!beside)
        return true;
    if (rename(beside, item->real) != 0)
        return false;
    item->beside = NULL;
    free(beside);
    return true;
}

/* In a signal handler: nothing but unlink. */
static void remove_all(void)
{
    files *const f = current;
    for (int i = 0; f && i < f->count; i++)
        if (f->items[i].beside)
            unlink(f->items[i].beside);
}

static void on_end(int signal_number)
{
    remove_all();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void catch_ends(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction now;
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            signal(ends[i], on_end);
    }
}

/* ------------------------------------------------------------------------------------------------ one file twice */

/* By device and inode; of files that are not there yet by their names without links. */
static bool is_same(const files_item *a, const files_item *b)
{
    return (a->unique && b->unique && a->device == b->device && a->inode == b->inode) ||
           (a->real && b->real && strcmp(a->real, b->real) == 0);
}

static const files_item *same_file(const files *f, const files_item *item)
{
    for (int i = 0; i < f->count; i++) {
        const files_item *other = &f->items[i];
        if (is_same(item, other) && (other->written || item->written) &&
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
    free(item->real);
    return -1;
}

/* ------------------------------------------------------------------------------------------------------- calls */

void files_begin(files *f)
{
    memset(f, 0, sizeof *f);
    atomic_init(&f->emptied, false);
    current = f;
    catch_ends();
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

static int open_item(files_item *item, files_use use)
{
    if (item->standard)
        return standard_fd(item);
    if (item->written)
        return open_output(item);
    return use == FILES_READ ? open_waiting(item->path, O_RDONLY) : open_whole(item->path);
}

/* What is wrong with a file that could be opened; NULL: nothing. */
static const char *unfit(files_item *item, files_use use)
{
    if ((use == FILES_WHOLE || use == FILES_NAMED) && !item->regular)
        return "it is a pipe or a device, whose size is not known: expected a file";
    if (use == FILES_VIDEO && isatty(item->fd))
        return "refusing to write video to a terminal";
    if (!find_real(item))
        return "nothing can be written in its folder, where it is written first to take its name when it is whole";
    return NULL;
}

int files_add(files *f, files_use use, const char *role, const char *path)
{
    files_item item = {
        .role = role, .path = path, .fd = -1, .written = use >= FILES_WRITE, .video = use == FILES_VIDEO};
    if (f->count == FILES_MAX)
        return refuse(f, path, "too many files");
    item.standard = (use == FILES_READ || use == FILES_VIDEO) && strcmp(path, "-") == 0;
    if (item.standard)
        item.path = item.written ? "standard output" : "standard input";
    item.fd = open_item(&item, use);
    if (item.fd < 0)
        return item.standard ? refuse(f, item.path, "it is closed") : refuse_system(f, path, "cannot be opened", errno);
    if (!look(&item)) {
        const int why = errno;
        drop(&item);
        return refuse_system(f, path, "cannot be opened", why);
    }
    const char *const wrong = unfit(&item, use);
    if (!wrong)
        return keep(f, &item);
    drop(&item);
    unmake(&item);
    free(item.real);
    return refuse(f, item.path, wrong);
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
        if (item->video && !item->standard && item->regular && item->fd >= 0 && ftruncate(item->fd, 0) != 0) {
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

uint64_t files_bytes(const files *f, int number) { return f->items[number].bytes; }

FILE *files_stream(files *f, int number)
{
    files_item *item = &f->items[number];
    const bool aside = item->real && !item->video;
    const int fd = aside ? open_beside(item) : item->fd;
    FILE *stream = fd < 0 ? NULL : fdopen(fd, item->written ? "w" : "r");
    if (!stream && aside && fd >= 0) {
        close(fd);
        remove_beside(item);
    }
    item->taken = item->taken || (stream && !aside);
    item->stream = stream;
    return stream;
}

/* The item whose stream it is, which has none from now on. */
static files_item *item_of(FILE *stream)
{
    files *const f = current;
    for (int i = 0; f && i < f->count; i++)
        if (f->items[i].stream == stream) {
            f->items[i].stream = NULL;
            return &f->items[i];
        }
    return NULL;
}

bool files_close(FILE *stream)
{
    files_item *const item = item_of(stream);
    const bool good = fflush(stream) == 0 && !ferror(stream);
    const int why = errno;
    const bool closed = fclose(stream) == 0;
    if (!good)
        errno = why ? why : EIO;
    const bool whole = good && closed && (!item || !item->beside || !files_emptied(current) || keep_beside(item));
    if (item)
        remove_beside(item);
    return whole;
}

void files_discard(FILE *stream)
{
    if (!stream)
        return;
    files_item *const item = item_of(stream);
    fclose(stream);
    if (item)
        remove_beside(item);
}

void files_end(files *f)
{
    for (int i = 0; i < f->count; i++) {
        files_item *item = &f->items[i];
        drop(item);
        remove_beside(item);
        if (!files_emptied(f))
            unmake(item);
        free(item->real);
    }
    f->count = 0;
    current = NULL;
}
