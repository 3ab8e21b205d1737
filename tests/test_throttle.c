/* tags: asan tsan */
/* test_throttle.c - examples/throttle: the speeds it understands, the time that reads take, the bytes they give.
 * Reads a file that it writes itself. Reads never take less than they should; more they take where the machine is busy,
 * and the shortest of many tries counts. */
#define _POSIX_C_SOURCE 200809L
#include "throttle.h"
#include "video_check.h"

#include <math.h>
#include <pthread.h>

enum { FILE_BYTES = 1 << 16, READERS = 3, READS = 5, BYTES = 4096, TRIES = 50 };

static uint8_t content[FILE_BYTES];

static void test_speeds(void)
{
    static const struct {
        const char *text;
        uint64_t speed; /* 0: refused */
    } cases[] = {{"sd", 50000000},  {"emmc", 250000000},  {"nvme", 1300000000}, {"123456", 123456},
                 {"80M", 80000000}, {"1.5G", 1500000000}, {"20K", 20000},       {"", 0},
                 {"fast", 0},       {"-5M", 0},           {"5MB", 0},           {"5X", 0},
                 {"0", 0},          {"nan", 0},           {"1e30", 0},          {"M", 0}};
    begin("speeds by name and number");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t speed = 0;
        const bool good = throttle_parse(cases[i].text, &speed);
        check(good == (cases[i].speed != 0) && speed == cases[i].speed, "\"%s\" gave %llu", cases[i].text,
              (unsigned long long)speed);
    }
    finish();
}

typedef struct reader {
    const bs_platform *p;
    int64_t file;
    bool good;
} reader;

static void *read_some(void *argument)
{
    reader *r = argument;
    uint8_t buffer[BYTES];
    r->good = true;
    for (int i = 0; i < READS; i++) {
        const uint64_t at = (uint64_t)i * BYTES;
        r->good = r->p->file_read(r->p->user, r->file, at, buffer, BYTES) == BYTES &&
                  memcmp(buffer, content + at, BYTES) == 0 && r->good;
    }
    return NULL;
}

static double seconds_of(reader *readers, int count)
{
    pthread_t threads[READERS];
    const bs_platform *p = readers[0].p;
    const uint64_t since = p->clock_ns(p->user);
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, read_some, &readers[i]);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return (double)(p->clock_ns(p->user) - since) * 1e-9;
}

/* 4096 bytes at 4.096 MB/s and a latency of 500 us: 1.5 ms a read, however many threads ask. */
static void test_time(const char *path)
{
    throttle t;
    uint64_t size = 0;
    throttle_init(&t, NULL, 4096000, 500000);
    const bs_platform *p = throttle_platform(&t);
    const int64_t file = p->file_open(p->user, path, &size);
    for (int count = 1; count <= READERS; count += 2) {
        reader readers[READERS];
        begin(count == 1 ? "reads of one thread take latency and bytes over bandwidth" : "threads share the device");
        for (int i = 0; i < count; i++)
            readers[i] = (reader){p, file, false};
        check(size == FILE_BYTES, "the file has %llu bytes", (unsigned long long)size);
        const double least = count * READS * 1.5e-3;
        double shortest = INFINITY;
        for (int try = 0; try < TRIES && !(shortest < 1.5 * least); try++) {
            const double took = seconds_of(readers, count);
            shortest = took < shortest ? took : shortest;
            check(took >= least, "%.6f s for %.6f", took, least);
            for (int i = 0; i < count; i++)
                check(readers[i].good, "reader %d did not get the file's bytes", i);
        }
        check(shortest < least + 1, "%.6f s at least for %.6f", shortest, least);
        finish();
    }
    p->file_close(p->user, file);
}

static void test_left_out(void)
{
    bs_platform bare = *bs_platform_default();
    throttle t;
    begin("what the platform underneath has not, this one has not");
    bare.thread_start = NULL;
    bare.file_open_direct = NULL;
    bare.file_forget = NULL;
    throttle_init(&t, &bare, 1000000, 0);
    const bs_platform *p = throttle_platform(&t);
    check(!p->thread_start && !p->file_open_direct && !p->file_forget && !p->log && p->file_read, "a call too many");
    finish();
}

int main(void)
{
    char path[] = "/tmp/test_throttle_XXXXXX";
    for (int i = 0; i < FILE_BYTES; i++)
        content[i] = (uint8_t)random_bits();
    const int made = mkstemp(path);
    FILE *file = made >= 0 ? fdopen(made, "wb") : NULL;
    if (!file || fwrite(content, 1, FILE_BYTES, file) != FILE_BYTES || fclose(file) != 0)
        return 1;
    test_speeds();
    test_time(path);
    test_left_out();
    remove(path);
    return summary();
}
