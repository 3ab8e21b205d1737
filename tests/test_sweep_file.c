/* tags: sweep unsigned */
/* test_sweep_file.c - a model file cut at every byte, and every single bit of it flipped: an error that tells
 * something, or a run that ends. A flip in a record is found by its checksum, one in padding when the file is opened.
 *
 * Owns: what each byte of the file is, and what must become of a flip there. Under address and undefined-behaviour
 * sanitizers it also finds what touches a byte too many. By default a part of the cases: SWEEP_STRIDE=1 (make sweep)
 * takes all. Must never: expect the same outcome of two bits of the header: some leave a sound file of another
 * network. */
#include "sweep_rig.h"

enum { PART = 37 }; /* by default every 37th case */

static sweep_file file;
static sweep_wanted wanted;
static sweep_life life;
static bs_platform alone;
static sweep_share share;
static sweep_how resident, streamed;

/* --------------------------------------------------------------------------------------------- what a byte is for */

typedef enum byte_class {
    OF_HEADER,
    OF_HEADER_PADDING,
    OF_HEAD,
    OF_WEIGHT,
    OF_GAP,
    OF_TAIL_PADDING,
    BYTE_CLASSES
} byte_class;
static const char *const class_names[BYTE_CLASSES] = {"header",  "padding behind the header", "heads of records",
                                                      "weights", "zeros between weights",     "padding behind records"};

static byte_class class_in_record(size_t record, size_t at)
{
    if (at < SWEEP_HEAD)
        return OF_HEAD;
    if (at >= file.record_bytes[record])
        return OF_TAIL_PADDING;
    for (size_t w = 0; w < file.n_weights; w++)
        if ((size_t)file.weights[w].block == record && at >= file.weights[w].offset &&
            at < file.weights[w].offset + file.weights[w].bytes)
            return OF_WEIGHT;
    return OF_GAP;
}

static byte_class class_of(size_t at)
{
    for (size_t b = file.n_blocks; b > 0; b--)
        if (file.record_bytes[b - 1] && at >= file.record_at[b - 1])
            return class_in_record(b - 1, at - file.record_at[b - 1]);
    return at < file.header_end ? OF_HEADER : OF_HEADER_PADDING;
}

/* ------------------------------------------------------------------------------------------------------- what came of
 * it */

typedef struct tally {
    size_t cases, at[SWEEP_STEPS], right, other, silent, wrong;
    double slowest_ms;
    size_t slowest;
    char why[400];
} tally;

static void tally_wrong(tally *t, size_t index, const char *what)
{
    if (t->wrong++ == 0)
        snprintf(t->why, sizeof t->why, "; case %zu %s (%s: %.200s)", index, what, sweep_step_names[life.step],
                 life.error.message);
}

/* A failure must say what it is. */
static void tally_life(tally *t, size_t index, bool ok)
{
    if (!ok && life.step != AT_END) {
        t->at[life.step]++;
        t->silent += life.status >= 0 || !life.error.message[0];
    } else if (ok) {
        t->right++;
    } else {
        t->other++;
    }
    if (!ok && !sweep_gave_back(&life))
        tally_wrong(t, index, "keeps bytes of an arena");
    if (!sweep_fences_hold(&life))
        tally_wrong(t, index, "wrote beyond an arena");
}

static void tally_time(tally *t, size_t index, double began)
{
    const double ms = sweep_ms() - began;
    if (ms > t->slowest_ms) {
        t->slowest_ms = ms;
        t->slowest = index;
    }
    t->cases++;
}

static void tally_say(const tally *t, const char *what)
{
    printf("%s: %zu cases; refused at", what, t->cases);
    for (int32_t s = AT_OPEN; s < AT_END; s++)
        if (t->at[s])
            printf(" %s %zu,", sweep_step_names[s], t->at[s]);
    printf(" ran with the same bytes %zu, with others %zu; slowest %.1f ms (case %zu)\n", t->right, t->other,
           t->slowest_ms, t->slowest);
}

/* The same memory, and the sound file. */
static void good_again(tally *t, size_t index, sweep_how how)
{
    how.bytes = file.f.bytes;
    how.n_bytes = file.f.n;
    if (!sweep_whole(&life, &how, &wanted))
        tally_wrong(t, index, "and then the sound file fails");
}

/* ----------------------------------------------------------------------------------------------------------- the
 * sweeps */

/* What there is of the file is at the end of its memory, so that a byte too many is noticed. */
static void test_cuts(void)
{
    static tally t;
    static uint8_t copy[SWEEP_FILE_BYTES + SWEEP_GUARD];
    sweep_how how = resident;
    for (size_t n = 0; n < file.f.n; n++) {
        if (!sweep_takes(&share, n))
            continue;
        const double began = sweep_ms();
        how.bytes = sweep_fence(copy, sizeof copy, n);
        how.n_bytes = n;
        memcpy(copy, file.f.bytes, n);
        const bool ok = sweep_whole(&life, &how, &wanted);
        tally_life(&t, n, ok);
        tally_time(&t, n, began);
        if (ok || life.step != AT_OPEN)
            tally_wrong(&t, n, "was opened");
        if (t.cases % 997 == 0)
            good_again(&t, n, how);
    }
    sweep_fence(copy, sizeof copy, sizeof copy);
    tally_say(&t, "cut");
    check(t.wrong == 0 && t.silent == 0,
          "a file cut at any of %zu bytes is refused when it is opened (%zu wrong, %zu without a word%s)", t.cases,
          t.wrong, t.silent, t.why);
}

/* What weights that stay are read without: heads and zeros do not show, weights do what they do. */
static void flip_resident(tally *t, size_t bit, byte_class of)
{
    const bool ok = sweep_whole(&life, &resident, &wanted);
    tally_life(t, bit, ok);
    const bool padding = of == OF_HEADER_PADDING || of == OF_TAIL_PADDING,
               record = of == OF_HEAD || of == OF_WEIGHT || of == OF_GAP;
    if (padding && (ok || life.step != AT_OPEN || life.status != BS_ERROR_FORMAT))
        tally_wrong(t, bit, "in padding is not refused");
    if (record && life.checked != BS_ERROR_FORMAT)
        tally_wrong(t, bit, "in a record passes bs_model_check");
    if ((of == OF_HEAD || of == OF_GAP) && !ok)
        tally_wrong(t, bit, "shows where nothing is read");
}

/* Where records are checked as they are read. */
static void flip_streamed(tally *t, size_t bit, byte_class of)
{
    const bool ok = sweep_whole(&life, &streamed, &wanted);
    tally_life(t, bit, ok);
    if (of != OF_HEADER && (ok || life.status != BS_ERROR_FORMAT))
        tally_wrong(t, bit, "is not noticed by the checksum");
}

static void flip(tally *resident_tally, tally *streamed_tally, size_t bit)
{
    const byte_class of = class_of(bit / 8);
    uint8_t *byte = &file.f.bytes[bit / 8];
    const uint8_t was = *byte;
    *byte = (uint8_t)(was ^ 1u << bit % 8);
    double began = sweep_ms();
    flip_resident(&resident_tally[of], bit, of);
    tally_time(&resident_tally[of], bit, began);
    if (of != OF_HEADER_PADDING && of != OF_TAIL_PADDING) { /* refused in the same way */
        began = sweep_ms();
        flip_streamed(&streamed_tally[of], bit, of);
        tally_time(&streamed_tally[of], bit, began);
    }
    *byte = was;
}

static void say_flips(const tally *t, const char *how, byte_class of)
{
    if (t->cases == 0)
        return;
    tally_say(t, class_names[of]);
    check(t->wrong == 0 && t->silent == 0,
          "%s, %s: %zu flips are errors that say so, or runs that end (%zu wrong, %zu without a word%s)",
          class_names[of], how, t->cases, t->wrong, t->silent, t->why);
    check(t->slowest_ms < 5000, "none takes long (%.1f ms)", t->slowest_ms);
}

static void test_flips(void)
{
    static tally here[BYTE_CLASSES], there[BYTE_CLASSES];
    size_t n = 0;
    for (size_t bit = 0; bit < 8 * file.f.n; bit++) {
        if (!sweep_takes(&share, bit))
            continue;
        flip(here, there, bit);
        if (++n % 997 == 0)
            good_again(&here[class_of(bit / 8)], bit, n / 997 % 2 ? resident : streamed);
    }
    for (int32_t of = 0; of < BYTE_CLASSES; of++) {
        say_flips(&here[of], "weights that stay", (byte_class)of);
        say_flips(&there[of], "weights that are streamed and checked", (byte_class)of);
    }
    const tally *header = &here[OF_HEADER];
    check(header->at[AT_OPEN] > 0 && header->at[AT_BUILD] > 0 && header->at[AT_SESSION] > 0 &&
              header->right + header->other > 0,
          "flips in the header get as far as they may: opening, building, a session, a run");
}

int main(int argc, char **argv)
{
    share = sweep_share_of(argc, argv, PART);
    if (share.stride > PART) /* fewer flips do not get everywhere, and one takes a millisecond */
        share.stride = PART;
    alone = sweep_alone();
    sweep_prepare(&file, &wanted, &alone);
    const sweep_how sound = {.bytes = file.f.bytes, .n_bytes = file.f.n, .platform = &alone, .least = SWEEP_ARENAS};
    resident = streamed = sound;
    resident.check = true;
    streamed.plan = sweep_streamed(&file, &alone);
    streamed.stream.check_records = 1;
    check(sweep_whole(&life, &resident, &wanted) && life.checked == BS_OK, "the sound file of %zu bytes runs%s%s",
          file.f.n, life.error.message[0] ? ": " : "", life.error.message);
    check(sweep_whole(&life, &streamed, &wanted), "and streams, to the same bytes%s%s",
          life.error.message[0] ? ": " : "", life.error.message);
    check(file.f.n <= SWEEP_FILE_BYTES, "it is as small as it has to be");
    test_cuts();
    test_flips();
    return check_end();
}
