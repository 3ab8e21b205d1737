/* tags: asan tsan */
/* test_model_plans.c - Promises: the plan of a model that is shipped, saved and opened again with a graph that was
 * built anew, gives what the plan that was made gives: sizes, report, every byte of every output and every decision,
 * frame by frame, in any order, with any threads, tiles, tiers, forced routes and streamed weights; whether the image
 * is read from its file or mapped. Every file in models/ takes part.
 *
 * test_model_plans              a part of the cases, while the budget lasts (budget.h)
 * test_model_plans all          all of them
 * test_model_plans IMAGE MODEL [NAME=AxBxC ...] [CODE_BITS]
 *     IMAGE is what bs_plan_save gives of a plan with its description, and runs like it (test_plan_cli.sh)
 *
 * With BS_TEST_ON_DEVICE plans are for a GPU (test_cuda_model_plans.c). Owns: which plans are made. Relies on:
 * model_lives.h. */
#define _POSIX_C_SOURCE 200809L
#include "model_lives.h"

#include "budget.h"

#include <dirent.h>

static bool write_image(void)
{
    FILE *file = fopen(image_path, "wb");
    const bool whole = file && fwrite(image, 1, image_bytes, file) == image_bytes;
    snprintf(why, sizeof why, "%s cannot be written", image_path);
    return file && fclose(file) == 0 && whole;
}

static bool same_records(void)
{
    size_t at = 0;
    while (at < made.n && at < again.n && made.bytes[at] == again.bytes[at])
        at++;
    snprintf(why, sizeof why, "byte %zu of %zu and %zu differs", at, made.n, again.n);
    return made.n > 0 && made.n == again.n && at == made.n;
}

static bool try_subject(const subject *s, place from)
{
    const bool ok = live(s, MADE, &made) && write_image() && live(s, from, &again) && same_records();
    remove(image_path);
    return ok;
}

/* ------------------------------------------------------------------------------------------------------ the cases
 * All orders, threads and slots with each of these. */

typedef enum kind { VIDEO, TEXT } kind;
typedef enum variant { PLAIN, SCALAR, FORCED, OTHER_SIZE, DIRECT, WINOGRAD, LARGE_TILES, CODES, VARIANTS } variant;

#ifdef BS_TEST_ON_DEVICE
enum { ROW_COUNT = 12, TALL = 40, WIDE = 56, PART = 193, ALL = 11 };
#else
enum { ROW_COUNT = 30, TALL = 88, WIDE = 132, PART = 7, ALL = 1 };
#endif

static void describe(subject *s, kind of, variant as)
{
    const int64_t sequences = as == OTHER_SIZE ? 1 : 3, half = as == OTHER_SIZE ? 2 : 1;
    s->n_inputs = of == VIDEO ? 1 : 3;
    if (of == VIDEO) {
        s->inputs[0] = (bs_model_input){"frame", 3, {1, TALL / half, WIDE / half, 0}};
    } else {
        s->inputs[0] = (bs_model_input){"tokens", 2, {ROW_COUNT, 1, 0, 0}};
        s->inputs[1] = (bs_model_input){"lengths", 1, {sequences, 0, 0, 0}};
        s->inputs[2] = (bs_model_input){"past", 1, {sequences, 0, 0, 0}};
    }
    s->desc.conv = as == DIRECT ? BS_CONV_FORCE_DIRECT : as == WINOGRAD ? BS_CONV_FORCE_WINOGRAD : BS_CONV_AUTO;
    s->desc.patch_size = as == LARGE_TILES ? 96 : 0;
    s->code_bits = as == CODES ? 10 : 0;
    s->floor = as == CODES ? -1 : 0;
    s->desc.n_forces = as == FORCED;
    s->desc.forces[0] = (bs_force){of == VIDEO ? "route" : "layer1.route", of == VIDEO ? 3 : 5};
}

/* The case of this number, as a number of mixed base. False: there is none. */
static bool case_of(subject *s, kind of, int32_t number)
{
    static const double slots[3] = {0, 0.001, 1};
    const int32_t variants = of == VIDEO ? VARIANTS : DIRECT;
    memset(&s->desc, 0, sizeof s->desc);
    s->desc.order = number % 3, number /= 3;
    s->slots = slots[number % 3], number /= 3;
#ifdef BS_TEST_ON_DEVICE
    s->desc.tier = BS_TIER_CUDA;
    s->desc.half = number % 2, number /= 2;
    s->desc.launch_mode = number % BS_LAUNCH_COUNT, number /= BS_LAUNCH_COUNT;
    s->desc.in_place = number % 2, number /= 2;
    describe(s, of, (variant)(number % variants));
#else
    s->desc.threads = number % 2 ? 3 : 1, number /= 2;
    describe(s, of, (variant)(number % variants));
    if (number % variants == SCALAR)
        s->desc.tier = BS_TIER_SCALAR;
#endif
    s->desc.lanes = s->slots > 0 ? 1 + s->desc.order : 0;
    s->desc.chunk_bytes = s->slots > 0 && s->slots < 1 ? 16384 : 0;
    return number < variants;
}

/* A file, and what its cases gave. */
typedef struct model_cases {
    subject s;
    kind of;
    int32_t most, step, taken, wrong, streamed;
    size_t bytes, largest;
} model_cases;

enum { MODELS = 16, LEAST = 8 };
static model_cases models[MODELS];

static int32_t common_divisor(int32_t a, int32_t b)
{
    while (b != 0) {
        const int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Every so many-th case; neighbours are alike, so they are taken by steps that come round to all. */
static void begin_model(model_cases *m, const char *name, int32_t every)
{
    snprintf(m->s.path, sizeof m->s.path, "models/%.200s", name);
    m->of = strstr(name, "text") ? TEXT : VIDEO;
    for (int32_t number = 0; case_of(&m->s, m->of, number); number += every)
        m->most++;
    m->step = 1 + m->most * 5 / 8;
    while (common_divisor(m->step, m->most) != 1)
        m->step++;
}

static void test_case(model_cases *m, int32_t every)
{
    const int32_t number = m->taken * m->step % m->most * every;
    case_of(&m->s, m->of, number);
    const bool ok = try_subject(&m->s, m->taken++ % 2 ? READ : MAPPED);
    if (!ok)
        printf("  %s, case %d, order %d, %d threads, slots %g, half %d: %s\n", m->s.path, number, m->s.desc.order,
               m->s.desc.threads, m->s.slots, m->s.desc.half, why);
    m->wrong += !ok;
    m->streamed += m->s.slots > 0;
    m->bytes += made.n;
    m->largest = image_bytes > m->largest ? image_bytes : m->largest;
}

static void test_models(int32_t every)
{
    struct dirent *entry;
    const budget b = every == ALL ? budget_whole() : budget_of(1.2);
    int32_t count = 0, taken = 0;
    DIR *folder = opendir("models");
    while (folder && (entry = readdir(folder)) != NULL) {
        const size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 5, ".gguf") != 0)
            continue;
        if (count == MODELS)
            exit(2);
        begin_model(&models[count++], entry->d_name, every);
    }
    if (folder)
        closedir(folder);
    for (int32_t turn = 0, last = -1; last < taken; turn++) {
        last = taken;
        for (model_cases *m = models; m < models + count; m++)
            if (m->wrong < 5 && budget_left(&b, turn, LEAST, m->most)) {
                test_case(m, every);
                taken++;
            }
    }
    for (const model_cases *m = models; m < models + count; m++)
        check(m->wrong == 0 && m->taken > 0 && m->streamed > 0,
              "%s, %d plans, %d of them with slots: opened again they give the same %zu bytes; the largest image has "
              "%zu",
              m->s.path, m->taken, m->streamed, m->bytes, m->largest);
    check(count > 0, "%d models are shipped", count);
}

/* -------------------------------------------------------------------------------------------- an image of others */

static bool take_input(subject *s, const char *word)
{
    static char names[INPUTS][40];
    bs_model_input *input = &s->inputs[s->n_inputs];
    int used = 0;
    long long d[3] = {0, 0, 0};
    if (s->n_inputs == INPUTS || sscanf(word, "%39[^=]=%n", names[s->n_inputs], &used) != 1 || used == 0)
        return false;
    input->name = names[s->n_inputs++];
    input->rank = sscanf(word + used, "%lldx%lldx%lld", &d[0], &d[1], &d[2]);
    for (int32_t i = 0; i < input->rank; i++)
        input->dim[i] = d[i];
    return input->rank > 0;
}

static bool read_image(const char *path)
{
    FILE *file = fopen(path, "rb");
    image = malloc(1 << 22);
    image_bytes = file ? fread(image, 1, 1 << 22, file) : 0;
    snprintf(image_path, sizeof image_path, "%s", path);
    return file && fclose(file) == 0 && image_bytes > 0;
}

/* What the plan in the image was asked for. */
static bool learn_desc(subject *s)
{
    life l;
    memset(&l, 0, sizeof l);
    l.of = s;
    const bool ok = open_model(&l) && build_graph(&l) && open_plan(&l, READ);
    if (ok)
        s->desc = l.plan->desc;
    s->desc.n_forces = 0; /* an image does not name them */
    end(&l);
    return ok;
}

static int test_image(int count, char **words)
{
    static subject s;
    static uint8_t *given;
    snprintf(s.path, sizeof s.path, "%s", words[1]);
    bool ok = read_image(words[0]);
    for (int i = 2; ok && i < count; i++)
        if (strchr(words[i], '='))
            ok = take_input(&s, words[i]);
        else
            s.code_bits = atoi(words[i]);
    const size_t given_bytes = image_bytes;
    given = image;
    image = NULL;
    check(ok && learn_desc(&s), "%s is opened with the graph of %s: %s", words[0], words[1], why);
    ok = live(&s, MADE, &made);
    check(ok && image_bytes == given_bytes && memcmp(image, given, image_bytes) == 0,
          "it is what bs_plan_save gives, %zu bytes", given_bytes);
    image_bytes = given_bytes;
    check(ok && live(&s, READ, &again) && same_records(), "read, it gives the same %zu bytes: %s", made.n, why);
    check(ok && live(&s, MAPPED, &again) && same_records(), "mapped, it gives them too");
    return check_end();
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return test_image(argc - 1, argv + 1);
    const char *build = getenv("BUILD");
    snprintf(image_path, sizeof image_path, "%s/tests/model_plans_%ld.image", build ? build : "build", (long)getpid());
    test_models(argc > 1 && strcmp(argv[1], "all") == 0 ? ALL : PART);
    free(image);
    free(made.bytes);
    free(again.bytes);
    return check_end();
}
