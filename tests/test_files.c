/* tags: asan */
/* Promises: a file that is written is no other file of the run, whatever its name; it is the old one or the whole new
 * one; what was made for a run that is refused goes again; what has no size is not waited for; standard descriptors are
 * there, and theirs. */
#define _XOPEN_SOURCE 700
#include "check.h"
#include "files.h"
#include "stop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[200];

static const char *in_folder(const char *name)
{
    static char paths[4][260];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        perror(in_folder(name));
        exit(2);
    }
}

/* What the file holds; NULL: it is not there. */
static const char *held(const char *name)
{
    static char text[64];
    FILE *file = fopen(in_folder(name), "r");
    if (!file)
        return NULL;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static bool holds(const char *name, const char *text)
{
    const char *is = held(name);
    return is && strcmp(is, text) == 0;
}

/* --- one file under two names ----------------------------------------------------------------------------- */

/* Whether `second` is refused after `first`, with both roles in the message, and nothing is different. */
static bool refuses(files_use first_use, const char *first, files_use second_use, const char *second)
{
    files f;
    files_begin(&f);
    const int number = files_add(&f, first_use, "the first", first);
    const bool opened = number >= 0, refused = opened && files_add(&f, second_use, "the second", second) < 0;
    const bool said = !refused || strstr(f.message, "the second and the first are the same file") != NULL;
    files_end(&f);
    return opened && refused && said;
}

static void test_same(void)
{
    static const char *const names[] = {"old", "../test_files/old", "link", "hard", "link_to_link"};
    static const files_use uses[] = {FILES_READ, FILES_WHOLE, FILES_NAMED, FILES_WRITE, FILES_VIDEO};
    int bad = 0;
    put("old", "old content");
    if (symlink("old", in_folder("link")) || symlink("link", in_folder("link_to_link")) ||
        link(in_folder("old"), in_folder("hard")))
        exit(2);
    for (int name = 0; name < 5; name++)
        for (int first = 0; first < 5; first++)
            for (int second = 0; second < 5; second++) {
                const bool written = first > 2 || second > 2;
                char path[260];
                snprintf(path, sizeof path, "%s", in_folder("old"));
                bad += refuses(uses[first], path, uses[second], in_folder(names[name])) != written;
                bad += !holds("old", "old content");
            }
    check(bad == 0, "a file is known by any name, and is refused where it would be written: %d are not", bad);
    bad = refuses(FILES_WRITE, in_folder("old"), FILES_READ, in_folder("other"));
    put("other", "old content");
    bad += refuses(FILES_WRITE, in_folder("old"), FILES_READ, in_folder("other"));
    check(bad == 0 && holds("other", "old content"), "another file is another one, whatever it holds");
}

static void test_made(void)
{
    char path[260];
    if (symlink("gone", in_folder("dangling")))
        exit(2);
    snprintf(path, sizeof path, "%s", in_folder("new"));
    int bad = !refuses(FILES_WRITE, path, FILES_WRITE, in_folder("../test_files/new"));
    check(bad == 0 && !held("new"), "two names of a file that is not there yet: refused, and it is not there");
    snprintf(path, sizeof path, "%s", in_folder("gone"));
    struct stat facts;
    bad = !refuses(FILES_WRITE, in_folder("dangling"), FILES_VIDEO, path);
    check(bad == 0 && !held("gone") && lstat(in_folder("dangling"), &facts) == 0,
          "through a link too, and the link is still there");
}

/* Two files that are not there yet are two, whatever the system numbers them. */
static void test_both_new(void)
{
    files f;
    int bad = 0;
    static const files_use uses[] = {FILES_WRITE, FILES_VIDEO};
    for (int k = 0; k < 4; k++) {
        files_begin(&f);
        const int first = files_add(&f, uses[k % 2], "the first", in_folder("one")),
                  second = files_add(&f, uses[k / 2], "the second", in_folder("two"));
        bad += first < 0 || second < 0;
        files_end(&f);
        bad += held("one") || held("two");
    }
    check(bad == 0, "two new files are taken, and go again: %d do not", bad);
}

static void test_special(void)
{
    files f;
    int ends[2];
    char path[32];
    if (pipe(ends))
        exit(2);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    files_begin(&f);
    int bad = 0;
    for (int i = 0; i < 3; i++)
        bad += files_add(&f, FILES_WRITE, "the output", "/dev/null") < 0;
    bad += files_add(&f, FILES_READ, "the input", "/dev/null") < 0;
    bad += access(path, F_OK) == 0 &&
           (files_add(&f, FILES_WRITE, "a", path) < 0 || files_add(&f, FILES_WRITE, "b", path) < 0);
    bad += !files_empty(&f);
    files_end(&f);
    close(ends[0]), close(ends[1]);
    check(bad == 0, "/dev/null and a pipe may be used twice");
}

/* --- when a file is the new one --------------------------------------------------------------------------- */

/* Names in the folder, but for the two of `.` and `..`. */
static int names(void)
{
    int n = -2;
    DIR *all = opendir(folder);
    while (all && readdir(all))
        n++;
    closedir(all);
    return n;
}

static void test_kept(void)
{
    files f;
    put("old", "old content");
    const int before = names();
    for (int emptied = 0; emptied < 2; emptied++) {
        files_begin(&f);
        const int out = files_add(&f, FILES_WRITE, "the output", in_folder("old")),
                  made = files_add(&f, FILES_WRITE, "the map", in_folder("new"));
        check(out >= 0 && made >= 0 && holds("old", "old content") && !held("new"),
              "what is opened keeps what it holds, and what is not there is not");
        FILE *stream = files_stream(&f, out);
        check(!emptied || (files_empty(&f) && files_empty(&f)), "results are kept from now on");
        check(stream && fputs("new", stream) >= 0 && fflush(stream) == 0 && holds("old", "old content"),
              "and what is not whole takes no name");
        check(files_close(stream) && holds("old", emptied ? "new" : "old content"),
              "a stream that is closed does, unless the run may still be refused");
        files_end(&f);
        check(names() == before && !held("new"), "nothing is left beside it, nor what was never written");
    }
}

/* What ends a stream early leaves the old content: said by the program, by the disk, or not at all. */
static void test_not_whole(void)
{
    files f;
    static char much[1 << 16];
    struct rlimit limit = {4096, RLIM_INFINITY}, none;
    int bad = 0;
    put("old", "old content");
    const int before = names();
    getrlimit(RLIMIT_FSIZE, &none);
    limit.rlim_max = none.rlim_max;
    for (int way = 0; way < 4; way++) {
        files_begin(&f);
        const int out = files_add(&f, FILES_WRITE, "the output", in_folder(way % 2 ? "new" : "old"));
        files_empty(&f);
        FILE *stream = files_stream(&f, out);
        if (way < 2) {
            fputs("half", stream);
            files_discard(stream);
        } else {
            setrlimit(RLIMIT_FSIZE, &limit);
            fwrite(much, 1, sizeof much, stream);
            bad += files_close(stream) || errno != EFBIG;
            setrlimit(RLIMIT_FSIZE, &none);
        }
        files_end(&f);
        bad += !holds("old", "old content") || held("new") || names() != before;
    }
    files_begin(&f);
    FILE *left = files_stream(&f, files_add(&f, FILES_WRITE, "the output", in_folder("old")));
    files_empty(&f);
    fputs("half", left);
    files_end(&f);
    fclose(left);
    bad += !holds("old", "old content") || names() != before;
    check(bad == 0, "of what is not whole nothing is left: %d", bad);
}

static void test_links_and_rights(void)
{
    files f;
    struct stat facts;
    int bad = 0;
    put("target", "old");
    bad += symlink("target", in_folder("named")) || link(in_folder("target"), in_folder("second"));
    bad += chmod(in_folder("target"), 0640);
    files_begin(&f);
    const int out = files_add(&f, FILES_WRITE, "the output", in_folder("named"));
    files_empty(&f);
    FILE *stream = files_stream(&f, out);
    fputs("new", stream);
    bad += !files_close(stream);
    files_end(&f);
    bad += !holds("target", "new") || !holds("named", "new") || lstat(in_folder("named"), &facts) ||
           !S_ISLNK(facts.st_mode);
    bad += stat(in_folder("target"), &facts) || (facts.st_mode & 0777) != 0640;
    check(bad == 0 && holds("second", "old"),
          "a link with a name stays one, rights stay, a hard link keeps the old content: %d are not so", bad);
}

/* In a process of its own, which a signal ends while it writes. */
static int ended_while_writing(int number)
{
    files f;
    signal(number, SIG_DFL); /* shells start what is in the background with some ignored */
    files_begin(&f);
    const int out = files_add(&f, FILES_WRITE, "the output", in_folder("old"));
    files_add(&f, FILES_WRITE, "the map", in_folder("new"));
    files_empty(&f);
    FILE *stream = files_stream(&f, out);
    fputs("half", stream);
    fflush(stream);
    raise(number);
    return 0;
}

static void test_ended(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    int bad = 0;
    put("old", "old content");
    const int before = names();
    for (int i = 0; i < 4; i++) {
        int status = 0;
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0)
            _exit(ended_while_writing(numbers[i]));
        waitpid(child, &status, 0);
        bad += !WIFSIGNALED(status) || WTERMSIG(status) != numbers[i] || !holds("old", "old content") ||
               names() != before;
    }
    check(bad == 0, "a signal ends the program, and leaves files as they were: %d do not", bad);
}

/* --- what cannot be ----------------------------------------------------------------------------------------- */

static void test_no_size(void)
{
    static const files_use uses[] = {FILES_WHOLE, FILES_NAMED};
    files f;
    int bad = 0;
    if (mkfifo(in_folder("pipe"), 0600) || symlink("pipe", in_folder("pipe_link")))
        exit(2);
    const char *const paths[] = {in_folder("pipe"), in_folder("pipe_link"), "/dev/zero", "/dev/null"};
    files_begin(&f);
    for (int use = 0; use < 2; use++) {
        for (int i = 0; i < 4; i++)
            bad += files_add(&f, uses[use], "the model", paths[i]) >= 0 || !strstr(f.message, "size is not known");
        bad += files_add(&f, uses[use], "the model", folder) >= 0 || !strstr(f.message, strerror(EISDIR));
    }
    put("sized", "eleven char");
    bad += files_bytes(&f, files_add(&f, FILES_WHOLE, "the model", in_folder("sized"))) != 11;
    files_end(&f);
    check(bad == 0, "a pipe, a device, a folder is refused where a size must be known, and not waited for: %d are not",
          bad);
}

static void test_failures(void)
{
    files f;
    files_begin(&f);
    check(files_add(&f, FILES_READ, "the input", in_folder("none")) < 0 &&
              strstr(f.message, "none: cannot be opened: No such file"),
          "a missing file is named, with the system's words: %s", f.message);
    check(files_add(&f, FILES_WRITE, "the output", folder) < 0 && strstr(f.message, strerror(EISDIR)),
          "a folder is no output: %s", f.message);
    int bad = 0;
    for (int i = 0; i < 2 * FILES_MAX; i++)
        bad += files_add(&f, FILES_READ, "the input", "/dev/null") >= FILES_MAX;
    check(bad == 0, "more files than there is room for are refused");
    files_end(&f);
    int full = open("/dev/full", O_WRONLY);
    FILE *stream = full >= 0 ? fdopen(full, "w") : NULL;
    if (stream) {
        fputs("text", stream);
        check(!files_close(stream) && errno == ENOSPC, "what a full disk did not take is told");
    }
}

/* --- standard descriptors --------------------------------------------------------------------------------- */

/* In a process of its own, with these descriptors closed: the status is how many checks failed. */
static int without(int mask)
{
    files f;
    int bad = 0;
    for (int fd = 0; fd < 3; fd++)
        if (mask & 1 << fd)
            close(fd);
    files_begin(&f);
    const int number = files_add(&f, FILES_WRITE, "the profile", in_folder("profile"));
    bad += number < 0 || files_fd(&f, number) < 3;
    bad += (mask & 1) &&
           (files_add(&f, FILES_READ, "the input", "-") >= 0 || !strstr(f.message, "standard input: it is closed"));
    bad += (mask & 2) &&
           (files_add(&f, FILES_VIDEO, "the output", "-") >= 0 || !strstr(f.message, "standard output: it is closed"));
    for (int fd = 0; fd < 3; fd++) {
        char c = 'x';
        errno = 0;
        if (mask & 1 << fd)
            bad += (fd == 0 ? read(fd, &c, 1) : write(fd, &c, 1)) != -1 || errno != EBADF;
    }
    files_end(&f);
    return bad;
}

static void test_closed(void)
{
    int bad = 0;
    for (int mask = 1; mask < 8; mask++) {
        int status = 1;
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0)
            _exit(without(mask));
        waitpid(child, &status, 0);
        bad += status != 0;
    }
    check(bad == 0 && !held("profile"), "closed descriptors are nobody's file, and as good as closed: %d of 7 are not",
          bad);
}

static int with_a_pipe_that_does_not_block(void)
{
    int ends[2];
    files f;
    if (pipe(ends) || fcntl(ends[1], F_SETFL, O_NONBLOCK) == -1 || dup2(ends[1], STDOUT_FILENO) < 0)
        return 9;
    files_begin(&f);
    const int own = fcntl(STDOUT_FILENO, F_GETFL), others = fcntl(ends[1], F_GETFL);
    files_end(&f);
    return (own & O_NONBLOCK ? 1 : 0) + (others & O_NONBLOCK ? 0 : 2);
}

static void test_blocking(void)
{
    int status = 1;
    if (access("/proc/self/fd/0", F_OK) != 0) {
        printf("no /proc here\n");
        return;
    }
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(with_a_pipe_that_does_not_block());
    waitpid(child, &status, 0);
    check(status == 0, "standard output is made to block, and whoever shares it sees nothing of that: status %d",
          status);
}

/* --- signals ---------------------------------------------------------------------------------------------- */

/* The flag is set before the call blocks, as if the signal had come between looking and reading. */
static int reads_after_a_signal(void)
{
    int ends[2];
    char c;
    if (pipe(ends))
        return 9;
    stop_catch();
    raise(SIGTERM);
    if (!*stop_flag())
        return 8;
    return read(ends[0], &c, 1) == -1 && errno == EINTR ? 0 : 7;
}

static void test_late(void)
{
    int status = 1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(reads_after_a_signal());
    enum { MOST = 20000 }; /* 200 s: it hangs, however busy the machine is */
    for (int i = 0; i < MOST && waitpid(child, &status, WNOHANG) == 0; i++) {
        const struct timespec some = {0, 10000000};
        nanosleep(&some, NULL);
        if (i == MOST - 1)
            kill(child, SIGKILL);
    }
    check(status == 0, "a call that blocks after the signal came is interrupted all the same: status %d", status);
}

int main(void)
{
    const char *build = getenv("BUILD");
    char command[500];
    snprintf(folder, sizeof folder, "%.140s/tests/files/test_files", build ? build : "build");
    snprintf(command, sizeof command, "rm -rf '%.*s' && mkdir -p '%s'", (int)strlen(folder) - 11, folder, folder);
    if (system(command) != 0)
        return 2;
    test_same();
    test_made();
    test_both_new();
    test_special();
    test_kept();
    test_not_whole();
    test_links_and_rights();
    test_ended();
    test_no_size();
    test_failures();
    test_closed();
    test_blocking();
    test_late();
    snprintf(command, sizeof command, "rm -rf '%.*s'", (int)strlen(folder) - 11, folder);
    return system(command) != 0 ? 2 : check_end();
}
