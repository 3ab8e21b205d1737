/* tags: asan tsan */
/* test_cuda_streams.c - sessions of one device beside each other: on streams of their own and on the caller's, from one
 * thread and from two; and what a caller's buffers may be on a device. Delays and counts need the emulation; the rest
 * runs on a GPU as well. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "cuda_net_rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef BS_CUDA_CPU
#include "cuda_cpu/control.h"
#endif

/* What a program does on a stream of its own: of cuda_runtime_api.h, which C compilers here may not have. */
int cudaStreamCreateWithFlags(void **stream, unsigned flags);
int cudaStreamDestroy(void *stream);
int cudaStreamSynchronize(void *stream);
int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *argument);
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
enum { NON_BLOCKING = 1, TO_DEVICE = 1, FROM_DEVICE = 2 };

static net n;

/* ------------------------------------------------------------------------------------------------ streams */

static void *new_stream(void)
{
    void *stream = NULL;
    return cudaStreamCreateWithFlags(&stream, NON_BLOCKING) == 0 ? stream : NULL;
}

/* Sessions of one plan on one device, each on the stream that is named for it (NULL: its own). */
static bool many_start(net *all, int32_t count, const bs_plan_desc *d, void *const *streams)
{
    memset(&n, 0, sizeof n);
    bool ok = net_plan(&n, net_graph(&n, 3), d) &&
              net_open(&n, (count - 1) * (int64_t)n.sizes.device, (count - 1) * (int64_t)n.sizes.pinned);
    for (int32_t i = 0; ok && i < count; i++) {
        n.stream = streams[i];
        n.rig.n_tensors = 0; /* weights of its own */
        ok = net_start(&n);
        all[i] = n;
    }
    return ok;
}

static void many_close(net *all, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        bs_session_close(all[i].session);
    bs_cuda_close(n.device);
}

enum { KINDS = 2, THREADS = 2, TURNS = 10 };
static const int64_t kind_heights[KINDS] = {13, 9}, kind_widths[KINDS] = {27, NET_SIZE};

typedef struct camera {
    net *net;
    int32_t number, wrong, launch_mode;
    float in[NET_SIZE * NET_SIZE], out[NET_SIZE * NET_SIZE], before[NET_SIZE * NET_SIZE];
} camera;

static camera cameras[THREADS];
static float kind_wanted[THREADS][KINDS][NET_SIZE * NET_SIZE];

/* A frame of other extents than the one before, or of the same. */
static bool camera_run(camera *c, int32_t kind)
{
    net_input(c->in, 100 + (uint64_t)(c->number * KINDS + kind));
    memset(c->out, 0x55, sizeof c->out);
    return net_bind(c->net, c->in, c->out, c->before, kind_heights[kind], kind_widths[kind]) == BS_OK &&
           bs_run(c->net->session, &c->net->error) == BS_OK;
}

static void *camera_thread(void *user)
{
    camera *c = user;
    for (int32_t turn = 0; turn < TURNS; turn++) {
        const int32_t kind = (turn / 2 + c->number) % KINDS;
        const bs_session *s = c->net->session;
        s->device->api->set_launch_mode(s->on_device, c->launch_mode, NULL); /* the graph it had serves all extents */
        c->wrong += !camera_run(c, kind) || memcmp(c->out, kind_wanted[c->number][kind], sizeof c->out) != 0;
    }
    return NULL;
}

/* Sessions of one device on threads of their own, all the while recording graphs or launching: each gives what it gives
 * alone, on streams of their own and on one that all of them name. */
static void test_threads(int32_t launch_mode, bool one_stream)
{
    static net all[THREADS];
    const bs_plan_desc d = {.tier = BS_TIER_CUDA, .launch_mode = launch_mode};
    void *stream = one_stream ? new_stream() : NULL, *const streams[THREADS] = {stream, stream};
    pthread_t threads[THREADS];
    int32_t wrong = 0;
    if (!check(many_start(all, THREADS, &d, streams), "sessions for two threads: %s", n.error.message))
        return;
    for (int32_t i = 0; i < THREADS; i++) {
        cameras[i].net = &all[i];
        cameras[i].number = i;
        cameras[i].wrong = 0;
        cameras[i].launch_mode = launch_mode;
        for (int32_t kind = 0; kind < KINDS; kind++) {
            wrong += !camera_run(&cameras[i], kind);
            memcpy(kind_wanted[i][kind], cameras[i].out, sizeof cameras[i].out);
        }
    }
#ifdef BS_CUDA_CPU
    struct cuda_cpu_counts c;
    cuda_cpu_counts_reset();
    cuda_cpu_delay(300, 3); /* captures stay open for long enough to be met */
#endif
    for (int32_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, camera_thread, &cameras[i]);
    for (int32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        wrong += cameras[i].wrong;
    }
    check(wrong == 0, "%s, two sessions on two threads, %s: %d runs, %d wrong: %s%s",
          bs_launch_mode_name((bs_launch_mode)launch_mode),
          one_stream ? "both on the caller's stream" : "a stream each", THREADS * TURNS, wrong, all[0].error.message,
          all[1].error.message);
#ifdef BS_CUDA_CPU
    cuda_cpu_delay(0, 3);
    cuda_cpu_counts_get(&c);
    const bool graphs = launch_mode == BS_LAUNCH_GRAPH || launch_mode == BS_LAUNCH_CONDITIONAL;
    check(!graphs || c.graph_launches == THREADS * TURNS,
          "every run is a graph, none was spoilt while it was recorded: %lld", (long long)c.graph_launches);
#endif
    many_close(all, THREADS);
    if (stream)
        cudaStreamDestroy(stream);
}

static atomic_int gate_open;

static void wait_at_gate(void *user)
{
    (void)user;
    while (!atomic_load(&gate_open))
        nanosleep(&(struct timespec){0, 100000}, NULL);
}

/* A session whose stream is held up, by whatever the caller queued there, holds up no other. */
static void test_beside(void)
{
    static net all[THREADS];
    void *stream = new_stream(), *const streams[THREADS] = {stream, NULL};
    bool ok = many_start(all, THREADS, &on_cuda, streams);
    check(ok, "two sessions: %s", n.error.message);
    for (int32_t i = 0; ok && i < THREADS; i++) {
        cameras[i].net = &all[i];
        cameras[i].number = i;
        for (int32_t turn = 0; ok && turn < 2; turn++)
            ok = camera_run(&cameras[i], 0);
        memcpy(kind_wanted[i][0], cameras[i].out, sizeof cameras[i].out);
        memset(cameras[i].out, 0x55, sizeof cameras[i].out);
    }
    atomic_store(&gate_open, 0);
    ok = ok && cudaLaunchHostFunc(stream, wait_at_gate, NULL) == 0 && bs_submit(all[0].session, &all[0].error) == BS_OK;
    check(ok && camera_run(&cameras[1], 0) && memcmp(cameras[1].out, kind_wanted[1][0], sizeof cameras[1].out) == 0,
          "a session runs beside one whose stream is held up: %s%s", all[0].error.message, all[1].error.message);
    atomic_store(&gate_open, 1);
    check(bs_wait(all[0].session, &all[0].error) == BS_OK &&
              memcmp(cameras[0].out, kind_wanted[0][0], sizeof cameras[0].out) == 0,
          "which runs when its stream goes on: %s", all[0].error.message);
    many_close(all, THREADS);
    cudaStreamDestroy(stream);
}

/* On the caller's stream a run is like a kernel: it reads what was queued before it has written, and what is queued
 * behind it finds its outputs in the GPU's memory, without bs_wait. */
static void test_callers_stream(int32_t launch_mode)
{
    enum { FRAMES = 4 };
    static float wanted[FRAMES][NET_SIZE * NET_SIZE];
    const bs_plan_desc d = {.tier = BS_TIER_CUDA, .launch_mode = launch_mode};
    const size_t bytes = sizeof net_in;
    int32_t wrong = 0;
    if (!check(net_make(&n, 3, &on_cuda, 0), "a net: %s", n.error.message))
        return;
    for (int32_t k = 0; k < FRAMES; k++) {
        net_input(net_in, 200 + (uint64_t)k);
        wrong += bs_run(n.session, &n.error) != BS_OK;
        memcpy(wanted[k], net_out, bytes);
    }
    net_close(&n);
    memset(&n, 0, sizeof n);
    n.stream = new_stream();
    bool ok = net_plan(&n, net_graph(&n, 3), &d) &&
              net_open(&n, 3 * (int64_t)bytes + 256, 2 * FRAMES * (int64_t)bytes + 1024) && net_start(&n);
    if (!check(ok, "a session on the caller's stream: %s", n.error.message))
        return;
    uint8_t *in = bs_arena_take(&n.device->memory, bytes), *out = bs_arena_take(&n.device->memory, bytes),
            *before = bs_arena_take(&n.device->memory, bytes);
    float *from = bs_arena_take(&n.device->pinned, FRAMES * bytes),
          *to = bs_arena_take(&n.device->pinned, FRAMES * bytes);
    ok = net_bind(&n, (float *)(void *)in, (float *)(void *)out, (float *)(void *)before, NET_SIZE, NET_SIZE) == BS_OK;
    memset(to, 0, FRAMES * bytes);
#ifdef BS_CUDA_CPU
    cuda_cpu_delay(200, 5);
#endif
    for (int32_t k = 0; ok && k < FRAMES; k++) {
        net_input(from + k * NET_SIZE * NET_SIZE, 200 + (uint64_t)k);
        ok = cudaMemcpyAsync(in, from + k * NET_SIZE * NET_SIZE, bytes, TO_DEVICE, n.stream) == 0 &&
             bs_submit(n.session, &n.error) == BS_OK &&
             cudaMemcpyAsync(to + k * NET_SIZE * NET_SIZE, out, bytes, FROM_DEVICE, n.stream) == 0;
    }
    ok = ok && cudaStreamSynchronize(n.stream) == 0;
    for (int32_t k = 0; k < FRAMES; k++)
        wrong += memcmp(to + k * NET_SIZE * NET_SIZE, wanted[k], bytes) != 0;
#ifdef BS_CUDA_CPU
    cuda_cpu_delay(0, 5);
#endif
    check(ok && wrong == 0 && bs_wait(n.session, &n.error) == BS_OK,
          "%s: %d frames go in and out on the caller's stream, %d wrong: %s",
          bs_launch_mode_name((bs_launch_mode)launch_mode), FRAMES, wrong, n.error.message);
    void *stream = n.stream;
    net_close(&n);
    cudaStreamDestroy(stream);
}

/* ------------------------------------------------------------------------------------------- bound buffers */

typedef enum place { ORDINARY, PINNED, ON_DEVICE, PLACES } place;
static const char *const place_names[PLACES] = {"ordinary", "pinned", "the GPU's"};

/* Memory for a test's buffer in an open net, and its bytes there and back. */
static uint8_t *take(place where, size_t bytes)
{
    static _Alignas(64) uint8_t ordinary[1 << 16];
    static size_t used;
    if (where != ORDINARY)
        return bs_arena_take(where == PINNED ? &n.device->pinned : &n.device->memory, bytes);
    used = used + bytes > sizeof ordinary ? 0 : used;
    return ordinary + (used += (bytes + 63) & ~(size_t)63) - ((bytes + 63) & ~(size_t)63);
}

static void put(void *to, const void *from, size_t bytes, place where)
{
    if (where != ON_DEVICE)
        memcpy(to, from, bytes);
    else
        check(cudaMemcpyAsync(to, from, bytes, TO_DEVICE, n.stream) == 0 && cudaStreamSynchronize(n.stream) == 0,
              "a copy to the device");
}

static void fetch(void *to, const void *from, size_t bytes, place where)
{
    if (where != ON_DEVICE)
        memcpy(to, from, bytes);
    else
        check(cudaMemcpyAsync(to, from, bytes, FROM_DEVICE, n.stream) == 0 && cudaStreamSynchronize(n.stream) == 0,
              "a copy from the device");
}

/* On a stream of the test's, with room for its buffers. */
static bool net_with_room(void)
{
    memset(&n, 0, sizeof n);
    n.stream = new_stream();
    return net_plan(&n, net_graph(&n, 3), &on_cuda) && net_open(&n, 1 << 16, 1 << 16) && net_start(&n);
}

static void net_end(void)
{
    void *stream = n.stream;
    net_close(&n);
    cudaStreamDestroy(stream);
}

/* A frame with a pitch goes in, one from the bottom up with another comes out; what lies between its lines is left
 * alone. */
static void test_strides(place where)
{
    enum { IN_PITCH = NET_SIZE + 5, OUT_PITCH = NET_SIZE + 3 };
    static float in[NET_SIZE * IN_PITCH], out[NET_SIZE * OUT_PITCH], wanted[NET_SIZE * NET_SIZE];
    int32_t wrong = 0, touched = 0;
    net_input(net_in, 77);
    bool ok = net_with_room() && net_bind(&n, net_in, net_out, net_before, NET_SIZE, NET_SIZE) == BS_OK &&
              bs_run(n.session, &n.error) == BS_OK;
    memcpy(wanted, net_out, sizeof wanted);
    for (int32_t i = 0; i < NET_SIZE; i++)
        memcpy(in + i * IN_PITCH, net_in + i * NET_SIZE, NET_SIZE * sizeof *in);
    for (int32_t i = 0; i < NET_SIZE * OUT_PITCH; i++)
        out[i] = 0.125f;
    uint8_t *from = take(where, sizeof in), *to = take(where, sizeof out);
    put(from, in, sizeof in, where);
    put(to, out, sizeof out, where);
    const bs_buffer x = {from, BS_F32, 3, {1, NET_SIZE, NET_SIZE}, {NET_SIZE * IN_PITCH, IN_PITCH, 1}};
    const bs_buffer y = {to + (NET_SIZE - 1) * OUT_PITCH * sizeof(float),
                         BS_F32,
                         3,
                         {1, NET_SIZE, NET_SIZE},
                         {NET_SIZE * OUT_PITCH, -OUT_PITCH, 1}};
    ok = ok && bs_bind(n.session, "x", &x, &n.error) == BS_OK && bs_bind(n.session, "y", &y, &n.error) == BS_OK &&
         bs_run(n.session, &n.error) == BS_OK;
    fetch(out, to, sizeof out, where);
    for (int32_t i = 0; i < NET_SIZE; i++) {
        wrong += memcmp(out + (NET_SIZE - 1 - i) * OUT_PITCH, wanted + i * NET_SIZE, NET_SIZE * sizeof *out) != 0;
        for (int32_t k = NET_SIZE; k < OUT_PITCH; k++)
            touched += out[i * OUT_PITCH + k] != 0.125f;
    }
    check(ok && wrong == 0 && touched == 0,
          "strided buffers in %s memory: %d lines wrong, %d elements beside them touched: %s", place_names[where],
          wrong, touched, n.error.message);
    net_end();
}

/* What a bound state holds counts, from its first run on; a reset clears it where it lies, and only it. */
static void test_state(place where)
{
    enum { PITCH = NET_SIZE + 4 };
    static float state[NET_SIZE * PITCH];
    int32_t wrong = 0, touched = 0;
    net_input(net_in, 78);
    bool ok = net_with_room() && net_bind(&n, net_in, net_out, net_before, NET_SIZE, NET_SIZE) == BS_OK;
    for (int32_t i = 0; i < NET_SIZE * PITCH; i++)
        state[i] = 0.5f;
    uint8_t *at = take(where, sizeof state);
    put(at, state, sizeof state, where);
    const bs_buffer old = {at, BS_F32, 3, {1, NET_SIZE, NET_SIZE}, {NET_SIZE * PITCH, PITCH, 1}};
    ok = ok && bs_bind(n.session, "old", &old, &n.error) == BS_OK;
    for (int32_t run = 0; ok && run < 3; run++) {
        if (run == 2)
            bs_reset_state(n.session);
        ok = bs_run(n.session, &n.error) == BS_OK;
        const float wanted = run == 0 ? 0.5f : run == 1 ? tanhf(0.5f) : 0.0f;
        for (int32_t i = 0; i < NET_SIZE * NET_SIZE; i++)
            wrong += fabsf(net_before[i] - wanted) > 1e-6f;
    }
    fetch(state, at, sizeof state, where);
    for (int32_t i = 0; i < NET_SIZE * PITCH; i++)
        touched += i % PITCH >= NET_SIZE && state[i] != 0.5f;
    check(ok && wrong == 0 && touched == 0,
          "a state in %s memory is read as it is bound, and reset: %d elements wrong, %d beside it touched: %s",
          place_names[where], wrong, touched, n.error.message);
    net_end();
}

#if defined(BS_CUDA_CPU) && !defined(__SANITIZE_ADDRESS__)
/* The same where the host cannot reach the device's memory, as on most machines: in a process of its own, before any
 * other test. */
static void test_apart(void)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        setenv("CUDA_CPU_SEPARATE", "1", 1);
        test_strides(ON_DEVICE);
        test_state(ON_DEVICE);
        _exit(check_failed != 0);
    }
    check(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "the host keeps its hands off buffers in the GPU's memory (%d)", status);
}

/* More elements than kernels count are refused before anything is touched: a line of 2^30 codes, three times. */
static void test_too_many(void)
{
    const struct cuda_cpu_device large = {.total_memory_bytes = (size_t)16 << 30};
    const int64_t width = (int64_t)1 << 30;
    memset(&n, 0, sizeof n);
    bs_graph *g = rig_begin(&n.rig, "large");
    const bs_value x = bs_input(g, "x", BS_U8, BS_SHAPE2(3, width));
    bs_output(g, "y", x);
    cuda_cpu_device(&large);
    bool ok = net_plan(&n, g, &on_cuda) && net_open(&n, 4096, 4096) && net_start(&n);
    if (check(ok, "a session for large buffers: %s", n.error.message)) {
        uint8_t *from = take(PINNED, 64), *to = take(ON_DEVICE, 64);
        const bs_buffer in = {from, BS_U8, 2, {3, width}, {0, 0}}, out = {to, BS_U8, 2, {3, width}, {width, 1}};
        bs_buffer same = in;
        same.stride[1] = 0, same.stride[0] = 1; /* one code each line: so large a buffer would take long to fill */
        ok = bs_bind(n.session, "x", &same, &n.error) == BS_OK && bs_bind(n.session, "y", &out, &n.error) == BS_OK;
        check(ok && bs_run(n.session, &n.error) == BS_ERROR_LIMIT &&
                  strstr(n.error.message, "\"y\" can give 2^31 elements or more"),
              "refused: %s", n.error.message);
    }
    net_close(&n);
    cuda_cpu_device(NULL);
}
#endif

int main(void)
{
#if defined(BS_CUDA_CPU) && !defined(__SANITIZE_ADDRESS__)
    test_apart();
    test_too_many();
#endif
    for (int32_t where = 0; where < PLACES; where++) {
        test_strides((place)where);
        test_state((place)where);
    }
    for (int32_t l = 0; l < BS_LAUNCH_COUNT; l++) {
        test_threads(l, false);
        test_threads(l, true);
        test_callers_stream(l);
    }
    test_beside();
    return check_end();
}
