/* progress.c: the progress line.
 *
 * Owns: its rhythm and its wording.
 * Relies on: progress.h, POSIX clock and isatty.
 * Must never: cost a frame noticeable time: between two lines a step reads the clock and returns.
 */
#define _POSIX_C_SOURCE 200809L
#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_start(progress *p, int64_t total, bool quiet)
{
    double time = now();
    *p = (progress){.total = total, .start = time, .shown = time, .quiet = quiet};
    p->terminal = isatty(STDERR_FILENO) == 1;
}

/* Wall time as m:ss, or h:mm:ss from an hour on. */
static void clock_text(char *text, size_t size, double seconds)
{
    int64_t s = seconds > 0 ? (int64_t)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(text, size, "%lld:%02d:%02d", (long long)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    else
        snprintf(text, size, "%d:%02d", (int)(s / 60), (int)(s % 60));
}

static int describe(const progress *p, double elapsed, char *line, size_t size)
{
    char spent[32], left[32];
    double fps = elapsed > 0 ? (double)p->done / elapsed : 0;
    clock_text(spent, sizeof spent, elapsed);
    if (p->total <= 0)
        return snprintf(line, size, "frame %lld; %.1f fps; elapsed %s", (long long)p->done, fps, spent);
    int64_t rest = p->total > p->done ? p->total - p->done : 0;
    int percent = (int)(p->done >= p->total ? 100 : 100 * p->done / p->total);
    clock_text(left, sizeof left, fps > 0 ? (double)rest / fps : 0);
    return snprintf(line, size, "frame %lld/%lld (%d%%); %.1f fps; elapsed %s; remaining %s", (long long)p->done,
                    (long long)p->total, percent, fps, spent, left);
}

void progress_step(progress *p)
{
    p->done++;
    if (p->quiet)
        return;
    double time = now();
    if (time - p->shown < (p->terminal ? 0.1 : 2.0))
        return;
    char line[160];
    int n = describe(p, time - p->start, line, sizeof line);
    p->shown = time;
    if (p->terminal) {
        fprintf(stderr, "\r%-*s", p->columns, line);
        p->columns = n;
    } else {
        fprintf(stderr, "%s\n", line);
    }
    fflush(stderr);
}

void progress_break(progress *p)
{
    if (p->terminal && p->columns > 0)
        fputc('\n', stderr);
    p->columns = 0;
}

void progress_end(progress *p)
{
    double elapsed = now() - p->start;
    if (p->quiet)
        return;
    if (p->terminal && p->columns > 0)
        fprintf(stderr, "\r%*s\r", p->columns, "");
    p->columns = 0;
    fprintf(stderr, "%lld frame%s in %.2f s", (long long)p->done, p->done == 1 ? "" : "s", elapsed);
    if (p->done > 0 && elapsed > 0)
        fprintf(stderr, ", %.1f fps", (double)p->done / elapsed);
    fputc('\n', stderr);
}
