/* tags: asan tsan */
/* Promises of the text model: the shipped file gives PyTorch's logits; what runs beside a text, in how many pieces it
 * is read and by how many threads changes no byte of them. tests/vectors/moe_text.bin:
 * training/moe_text/make_vectors.py. */
#include "check.h"

#include "text_model.h"
#include "text_sample.h"

#include <math.h>

#define MODEL "models/moe_text.gguf"
#define MOST_CHARACTERS 300
#define MOST_POSITIONS 8
#define MOST_TEXTS 4

typedef struct text {
    int32_t characters, positions;
    int32_t codes[MOST_CHARACTERS], position[MOST_POSITIONS];
    float logits[MOST_POSITIONS][TEXT_CODES];
} text;

static text texts[MOST_TEXTS];
static int n_texts;
static text_model model;

/* ------------------------------------------------------------------------------------------------ vectors */

static bool read_text(FILE *file, text *t)
{
    uint8_t code;
    if (fread(&t->characters, 4, 1, file) != 1 || fread(&t->positions, 4, 1, file) != 1 || t->characters < 1 ||
        t->characters > MOST_CHARACTERS || t->positions < 1 || t->positions > MOST_POSITIONS)
        return false;
    for (int i = 0; i < t->characters; i++) {
        if (fread(&code, 1, 1, file) != 1)
            return false;
        t->codes[i] = code;
    }
    return fread(t->position, 4, (size_t)t->positions, file) == (size_t)t->positions &&
           fread(t->logits, sizeof t->logits[0], (size_t)t->positions, file) == (size_t)t->positions;
}

static bool read_vectors(const char *path)
{
    FILE *file = fopen(path, "rb");
    int32_t count = 0;
    bool ok = file && fread(&count, 4, 1, file) == 1 && count >= 1 && count <= MOST_TEXTS;
    for (n_texts = 0; ok && n_texts < count; n_texts++)
        ok = read_text(file, &texts[n_texts]);
    if (file)
        fclose(file);
    return ok;
}

/* ------------------------------------------------------------------------------------------------- running */

static bool open_streamed(int sequences, int rows_most, int threads, uint64_t slot_bytes, bool speculate)
{
    text_options o = {.model = MODEL,
                      .prompt = "",
                      .sequences = sequences,
                      .threads = threads,
                      .stream = {.slot_bytes = slot_bytes,
                                 .stream = {.speculation = speculate ? BS_SPECULATE_AUTO : BS_SPECULATE_OFF}}};
    const bool ok = text_model_open(&model, &o, rows_most, NULL);
    if (!ok)
        printf("  %s\n", model.error.message);
    return ok;
}

static bool open_model(int sequences, int rows_most, int threads)
{
    return open_streamed(sequences, rows_most, threads, 0, false);
}

/* Feeds codes [begin, end) of one text to all sequences, at most `piece` at a time. */
static bool feed(const text *t, int begin, int end, int piece)
{
    int32_t rows[TEXT_MAX_ROWS];
    for (int at = begin; at < end; at += piece) {
        const int n = end - at < piece ? end - at : piece;
        for (int s = 0; s < model.sequences; s++)
            memcpy(rows + s * n, t->codes + at, (size_t)n * sizeof *rows);
        if (!text_model_run(&model, rows, n)) {
            printf("  %s\n", model.error.message);
            return false;
        }
    }
    return true;
}

/* Greatest difference over the greatest logit. */
static double distance(const float *a, const float *b)
{
    double worst = 0, scale = 0;
    for (int i = 0; i < TEXT_CODES; i++) {
        const double d = fabs((double)a[i] - b[i]);
        worst = d <= worst ? worst : d; /* not a number is far off */
        scale = fabs((double)b[i]) > scale ? fabs((double)b[i]) : scale;
    }
    return worst / scale;
}

static void equals_pytorch(const text *t, int piece)
{
    double worst = 0;
    bool ok = open_model(1, piece, 1);
    for (int i = 0, at = 0; ok && i < t->positions; i++) {
        ok = feed(t, at, t->position[i] + 1, piece);
        at = t->position[i] + 1;
        const double d = distance(model.logits[0], t->logits[i]);
        worst = d <= worst ? worst : d;
    }
    check(ok && worst <= 1e-5, "text %d, at most %d characters a run: logits are PyTorch's (%.1e off)",
          (int)(t - texts), piece, worst);
    text_model_close(&model);
}

/* The logits after each of the first characters, one text alone. */
static float alone[MOST_CHARACTERS][TEXT_CODES];

static void same_in_pieces(const text *t)
{
    bool ok = open_model(1, 1, 1);
    for (int i = 0; ok && i < t->characters; i++) {
        ok = feed(t, i, i + 1, 1);
        memcpy(alone[i], model.logits[0], sizeof alone[i]);
    }
    text_model_close(&model);
    check(ok, "character by character");
    for (int piece = 3; piece <= TEXT_MAX_ROWS; piece *= 5) {
        ok = open_model(1, piece, 1) && feed(t, 0, t->characters, piece);
        check(ok && memcmp(model.logits[0], alone[t->characters - 1], sizeof alone[0]) == 0,
              "pieces of %d: the same bytes", piece);
        text_model_close(&model);
    }
}

static void same_beside_others(const text *t, int sequences, int threads)
{
    bool ok = open_model(sequences, 8, threads), same = true;
    for (int i = 0; ok && i < t->characters; i += 8) {
        const int end = i + 8 < t->characters ? i + 8 : t->characters;
        ok = feed(t, i, end, 8);
        for (int s = 0; s < sequences; s++)
            same = same && memcmp(model.logits[s], alone[end - 1], sizeof alone[0]) == 0;
    }
    check(ok && same, "%d texts side by side, %d threads: the same bytes as one alone", sequences, threads);
    text_model_close(&model);
}

/* Weights that come and go: whatever fits, the same bytes. */
static void same_streamed(const text *t, uint64_t slot_bytes, int threads, bool speculate)
{
    bool ok = open_streamed(1, 16, threads, slot_bytes, speculate) && feed(t, 0, t->characters, 16);
    check(ok && memcmp(model.logits[0], alone[t->characters - 1], sizeof alone[0]) == 0,
          "%d KB of slots, %d threads%s: the same bytes", (int)(slot_bytes / 1024), threads,
          speculate ? ", guessing" : "");
    text_model_close(&model);
}

static void experts_are_chosen(const text *t)
{
    int64_t most = 0, all = 0;
    bs_decision d;
    bool ok = open_model(1, 250, 1) && feed(t, 0, 250, 250);
    for (int layer = 0; ok && layer < 4; layer++) {
        char name[BS_MAX_NAME];
        snprintf(name, sizeof name, "layer%d.route", layer);
        ok = bs_decision_get(model.session, name, &d) == BS_OK && d.paths == 16;
        for (int p = 0; ok && p < 16; p++) {
            all += d.counts[p];
            most = d.counts[p] > most ? d.counts[p] : most;
        }
    }
    check(ok && all == 4 * 2 * 250 && most < 250, "two of sixteen experts a character, none for all (%d of 250)",
          (int)most);
    text_model_close(&model);
}

/* ------------------------------------------------------------------------------------------------ sampling */

static void samples_follow_logits(void)
{
    float logits[TEXT_CODES] = {0};
    int count[TEXT_CODES] = {0};
    text_sampler sampler;
    for (int i = 0; i < TEXT_CODES; i++)
        logits[i] = -50;
    logits[3] = 1, logits[70] = 2, logits[95] = NAN;
    text_sampler_open(&sampler, 0.5, 7, 0);
    for (int i = 0; i < 100000; i++)
        count[text_sample(&sampler, logits, TEXT_CODES)]++;
    const double expected = 1 / (1 + exp(-2.0)); /* a difference of 1 at temperature 0.5 */
    check(fabs(count[70] / 1e5 - expected) < 0.005 && count[3] + count[70] == 100000,
          "drawn in proportion (%.4f, expected %.4f)", count[70] / 1e5, expected);
    text_sampler_open(&sampler, 0, 7, 0);
    check(text_sample(&sampler, logits, TEXT_CODES) == 70, "temperature 0: the greatest");
}

static void sequences_differ(void)
{
    const float logits[TEXT_CODES] = {0};
    text_sampler a, b, c;
    int same = 0, again = 0;
    text_sampler_open(&a, 1, 5, 0);
    text_sampler_open(&b, 1, 5, 1);
    text_sampler_open(&c, 1, 5, 1);
    for (int i = 0; i < 960; i++) {
        const int x = text_sample(&b, logits, TEXT_CODES);
        same += text_sample(&a, logits, TEXT_CODES) == x;
        again += text_sample(&c, logits, TEXT_CODES) == x;
    }
    check(same < 40 && again == 960, "sequences draw their own numbers, the same each time (%d of 960 agree by chance)",
          same);
}

int main(void)
{
    if (check(read_vectors("tests/vectors/moe_text.bin"), "the vectors can be read")) {
        for (int i = 0; i < n_texts; i++)
            equals_pytorch(&texts[i], i == 1 ? TEXT_MAX_ROWS : 1 + 6 * i);
        equals_pytorch(&texts[1], 1);
        same_in_pieces(&texts[1]);
        same_beside_others(&texts[1], 1, 1);
        same_beside_others(&texts[1], 5, 2);
        same_beside_others(&texts[1], TEXT_MAX_SEQUENCES, 3);
        same_streamed(&texts[1], 200 << 10, 1, true);
        same_streamed(&texts[1], 1 << 20, 2, true);
        same_streamed(&texts[1], 2 << 20, 1, false);
        experts_are_chosen(&texts[1]);
    }
    samples_follow_logits();
    sequences_differ();
    return check_end();
}
