/* cli_run.c: `brainstorm run`: a network from its file to its results, its time, and any value on the way.
 *
 * Owns: its command line; what is bound. Relies on: cli.h, cli_load.h, cli_tensor.h, cli_peek.h, cli_time.h,
 * plan_options.h. Must never: write a file before all that can be refused was tried. */
#include "cli.h"
#include "cli_load.h"
#include "cli_peek.h"
#include "cli_tensor.h"
#include "cli_time.h"
#include "cores.h"
#include "device_launches.h"
#include "plan_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PORTS = 64, MAX_PEEKS = 16, SHOWN_OPS = 10, TIMED_RUNS = 10 };

static const char usage_text[] =
    "usage: brainstorm run FILE [OPTION]...\n"
    "\n"
    "  --input NAME=WHAT     " CLI_INPUT_WORDS "\n"
    "                        [zeros]. Extents that no input says are the largest of the file. Pictures go to inputs\n"
    "                        of [1, H, W] (their luma) or [3, H, W], with one batch before if it has that: codes for\n"
    "                        u8, 0 to 1 for f32, unless:\n"
    PICTURE_OPTIONS_USAGE
    "  --output NAME=FILE    write an output: .npy, or a picture: .png, .ppm, .pgm\n"
    "  --compare NAME=FILE   an array beside an output: the largest difference, and where\n"
    "  --tolerance T         --compare fails above T times the largest magnitude in FILE [only where extents or NaNs\n"
    "                        differ]\n"
    "  --peek NODE[=FILE]    a value inside, by the node's name or number (`brainstorm inspect`), as an output\n"
    "  --runs N              [1; with --time 10 and one before them that is not counted]\n"
    "  --time                the most expensive ops and blocks, and how near each is to what this machine can do;\n"
    "                        cuda: a run in each launch mode\n"
    "  --launches            cuda: what a run launches, instead of results (as `brainstorm plan --launches`)\n"
    "  --json                --launches as JSON\n"
    "  --quiet               results are written and compared, not printed\n"
    PLAN_OPTIONS_USAGE
    DEVICE_OPTIONS_USAGE
    STREAM_OPTIONS_USAGE;

/* NAME=WORD, as often as an option was given. */
typedef struct named_words {
    const char *name[MAX_PORTS], *word[MAX_PORTS]; /* word NULL: a peek that goes to no file */
    int32_t count;
} named_words;

typedef struct run_command {
    const char *path;
    plan_options plan;
    picture_options pictures;
    named_words inputs, outputs, compares, peeks;
    int32_t runs;
    double tolerance; /* below 0: none */
    bool timed, quiet, help, launches, json;
} run_command;

/* -------------------------------------------------------------------------------------------------- its words */

static bool keep_named(named_words *all, char *word)
{
    char *const rest = plan_word_split(word);
    if (all->count == MAX_PORTS || !rest || *rest == 0)
        return false;
    all->name[all->count] = word;
    all->word[all->count++] = rest;
    return true;
}

/* The word that goes with a port; NULL: none does. */
static const char *word_for(const named_words *all, const char *port)
{
    for (int32_t i = 0; i < all->count; i++)
        if (strcmp(all->name[i], port) == 0)
            return all->word[i];
    return NULL;
}

static bool keep_output(named_words *all, char *word)
{
    return keep_named(all, word) && cli_tensor_writes(all->word[all->count - 1]);
}

static bool option_peek(run_command *o, char *word)
{
    if (strchr(word, '='))
        return o->peeks.count < MAX_PEEKS && keep_output(&o->peeks, word);
    if (o->peeks.count == MAX_PEEKS || *word == 0)
        return false;
    o->peeks.name[o->peeks.count++] = word;
    return true;
}

static bool option_tolerance(run_command *o, const char *word)
{
    char *end;
    o->tolerance = strtod(word, &end);
    return end != word && *end == 0 && o->tolerance >= 0;
}

static bool run_option(run_command *o, const char *option, char *word, char *message, size_t bytes)
{
    if (strcmp(option, "--input") == 0)
        return keep_named(&o->inputs, word);
    if (strcmp(option, "--output") == 0)
        return keep_output(&o->outputs, word);
    if (strcmp(option, "--compare") == 0)
        return keep_named(&o->compares, word);
    if (strcmp(option, "--peek") == 0)
        return option_peek(o, word);
    if (strcmp(option, "--tolerance") == 0)
        return option_tolerance(o, word);
    if (strcmp(option, "--runs") == 0)
        return plan_word_i32(word, 1, 1000000, &o->runs);
    bool of_pictures;
    const bool understood = picture_options_value(&o->pictures, option, word, &of_pictures);
    if (of_pictures)
        return understood;
    const plan_taken plan = plan_options_value(&o->plan, option, word);
    if (plan != PLAN_OTHER)
        return plan == PLAN_TAKEN;
    const device_taken device = device_options_value(&o->plan.device, option, word, message, bytes);
    if (device != DEVICE_OTHER)
        return device == DEVICE_TAKEN;
    return stream_options_value(&o->plan.stream, option, word, message, bytes) == STREAM_TAKEN;
}

static bool run_flag(run_command *o, const char *option)
{
    bool *const flag = strcmp(option, "--time") == 0    ? &o->timed
                       : strcmp(option, "--quiet") == 0 ? &o->quiet
                       : strcmp(option, "--help") == 0  ? &o->help
                       : strcmp(option, "--launches") == 0 ? &o->launches
                       : strcmp(option, "--json") == 0  ? &o->json
                                                        : NULL;
    if (flag)
        *flag = true;
    return flag || device_options_flag(&o->plan.device, option) || stream_options_flag(&o->plan.stream, option);
}

static const char *wrong_together(const run_command *o)
{
    const char *wrong = device_options_wrong(&o->plan.device);
    if (!wrong && o->timed && (o->plan.stream.profile || o->plan.stream.trace))
        wrong = "--time records by itself: --profile and --trace are for another run";
    if (!wrong && o->launches && !o->plan.device.cuda)
        wrong = "--launches is for --device cuda";
    if (!wrong && o->launches && (o->timed || o->outputs.count || o->compares.count || o->runs))
        wrong = "--launches prints no results and no times";
    if (!wrong && o->json && !o->launches)
        wrong = "--json is for --launches";
    if (!wrong && o->plan.desc.tier && o->plan.device.cuda)
        wrong = "--tier is for the CPU, --device cuda for a GPU";
    return wrong;
}

static int read_options(run_command *o, int count, char **words)
{
    memset(o, 0, sizeof *o);
    o->tolerance = -1;
    for (int i = 0; i < count && !o->help; i++) {
        char shown[160];
        if (strncmp(words[i], "--", 2) != 0) {
            if (o->path)
                return cli_fail_usage("run", "more than one file", words[i]);
            o->path = words[i];
            continue;
        }
        if (run_flag(o, words[i]))
            continue;
        if (i + 1 == count)
            return cli_fail_usage("run", "an unknown option, or one without a value", words[i]);
        snprintf(shown, sizeof shown, "%s %s", words[i], words[i + 1]);
        if (!run_option(o, words[i], words[i + 1], shown, sizeof shown))
            return cli_fail_usage("run", "not understood", shown);
        i++;
    }
    if (o->help)
        return EXIT_SUCCESS;
    if (!o->path)
        return cli_fail_usage("run", "it takes a model file", NULL);
    if (o->plan.desc.threads == 0 && !o->plan.device.cuda)
        o->plan.desc.threads = cores_usable();
    const char *wrong = wrong_together(o);
    return wrong ? cli_fail_usage("run", wrong, NULL) : EXIT_SUCCESS;
}

/* ---------------------------------------------------------------------------------------------------- the run */

typedef struct running {
    const run_command *o;
    cli_loaded l;
    stream_tools stream;
    device_tools gpu;
    cli_time *time;
    bs_memory memory;
    bs_session *session;
    cli_tensor inputs[MAX_PORTS], outputs[MAX_PORTS + MAX_PEEKS];
    char peeks[MAX_PEEKS][BS_MAX_NAME]; /* names of outputs */
    int32_t n_inputs, n_outputs;
    bool apart; /* a comparison failed */
    bs_error error;
} running;

static bool refuse(running *r, const char *what, const char *name)
{
    memset(&r->error, 0, sizeof r->error);
    r->error.status = BS_ERROR_ARGUMENT;
    snprintf(r->error.message, sizeof r->error.message, "%s \"%.100s\"", what, name);
    return false;
}

static bool names_are_there(running *r, const named_words *all, bool outputs)
{
    for (int32_t i = 0; i < all->count; i++) {
        bs_port_facts facts;
        if (bs_graph_port_get(r->l.graph, all->name[i], &facts) != BS_OK || facts.output != outputs)
            return refuse(r, outputs ? "there is no output" : "there is no input", all->name[i]);
    }
    return true;
}

/* The ports of the graph as it is now. Names that were asked for and are not there are refused. */
static bool list_ports(running *r)
{
    const char *name;
    r->n_inputs = r->n_outputs = 0;
    for (int32_t i = 0; (name = bs_graph_port_name(r->l.graph, i)) != NULL; i++) {
        cli_tensor t = {.name = name, .file = -1};
        bs_graph_port_get(r->l.graph, name, &t.port);
        if (t.port.output ? r->n_outputs == MAX_PORTS : r->n_inputs == MAX_PORTS)
            return refuse(r, "more than 64 inputs or outputs: no room for", name);
        if (t.port.output)
            r->outputs[r->n_outputs++] = t;
        else
            r->inputs[r->n_inputs++] = t;
    }
    return names_are_there(r, &r->o->inputs, false) && names_are_there(r, &r->o->outputs, true) &&
           names_are_there(r, &r->o->compares, true);
}

static bool read_inputs(running *r)
{
    for (int32_t i = 0; i < r->n_inputs; i++) {
        cli_tensor *t = &r->inputs[i];
        t->word = word_for(&r->o->inputs, t->name);
        if (!cli_tensor_read(t, &r->o->pictures, &r->error))
            return false;
    }
    return true;
}

static bool add_peeks(running *r)
{
    for (int32_t i = 0; i < r->o->peeks.count; i++) {
        cli_tensor *t = &r->outputs[r->n_outputs];
        if (!cli_peek(r->l.graph, r->o->peeks.name[i], r->peeks[i], &r->error))
            return false;
        *t = (cli_tensor){.name = r->peeks[i], .file = -1};
        bs_graph_port_get(r->l.graph, r->peeks[i], &t->port);
        r->n_outputs++;
    }
    return true;
}

/* Why a graph cannot be built for inputs that are pictures as they are. */
static bool picture_hint(running *r)
{
    const size_t used = strlen(r->error.message);
    const bool resized = r->o->pictures.height || r->o->pictures.as_input;
    for (int32_t i = 0; !resized && i < r->n_inputs; i++)
        if (r->inputs[i].word && picture_is_named(r->inputs[i].word)) {
            snprintf(r->error.message + used, sizeof r->error.message - used,
                     " (--resize input, or HxW, makes %.60s fit)", r->inputs[i].word);
            break;
        }
    return false;
}

/* First with the file's extents, for types and names, then with those of the inputs at hand. */
static bool build(running *r)
{
    bs_model_input known[MAX_PORTS];
    bs_model_build_desc desc = {.inputs = known, .code_bits = r->o->plan.code_bits};
    if (!cli_load_graph(&r->l, &desc, 0, &r->error) || !list_ports(r) || !read_inputs(r))
        return false;
    for (int32_t i = 0; i < r->n_inputs; i++)
        desc.n_inputs += cli_tensor_extents(&r->inputs[i], &known[desc.n_inputs]);
    if (!cli_load_graph(&r->l, &desc, r->o->peeks.count * CLI_PEEK_NODES, &r->error))
        return picture_hint(r);
    for (int32_t i = 0; i < r->n_inputs; i++)
        bs_graph_port_get(r->l.graph, r->inputs[i].name, &r->inputs[i].port);
    for (int32_t i = 0; i < r->n_outputs; i++)
        bs_graph_port_get(r->l.graph, r->outputs[i].name, &r->outputs[i].port);
    return add_peeks(r);
}

static bool open_session(running *r)
{
    bs_plan_desc desc = r->o->plan.desc;
    bs_sizes sizes;
    device_plan(&r->gpu, &desc);
    if (!cli_load_plan(&r->l, &desc, &r->o->plan.stream, &r->error))
        return false;
    bs_plan_sizes(r->l.plan, &sizes);
    if (!device_open(&r->gpu, &r->l.memory, &sizes, &r->error) ||
        !arenas_lend_session(&r->l.memory, &r->memory, &sizes, &r->error))
        return false;
    bs_session_desc session = {.weights = bs_model_weights(r->l.model), .device = r->gpu.device};
    stream_options_session(&r->o->plan.stream, &r->stream, &session);
    if (r->o->timed && !r->gpu.used) {
        r->time = cli_time_begin(&r->error);
        if (!r->time)
            return false;
        session.profile = cli_time_profile(r->time);
    }
    r->session = bs_session_create(&r->memory, r->l.plan, &session, &r->error);
    return r->session != NULL;
}

static bool bind_all(running *r)
{
    for (int32_t i = 0; i < r->n_inputs; i++)
        if (!cli_tensor_fill(&r->inputs[i], &r->error) ||
            bs_bind(r->session, r->inputs[i].name, &r->inputs[i].buffer, &r->error) != BS_OK)
            return false;
    for (int32_t i = 0; i < r->n_outputs; i++) {
        cli_tensor *t = &r->outputs[i];
        const int32_t peek = i - (r->n_outputs - r->o->peeks.count);
        t->word = peek < 0 ? word_for(&r->o->outputs, t->name) : r->o->peeks.word[peek];
        t->beside = word_for(&r->o->compares, t->name);
        if (!cli_tensor_room(t, &r->error) || bs_bind(r->session, t->name, &t->buffer, &r->error) != BS_OK ||
            !cli_tensor_open(t, &r->error))
            return false;
    }
    return true;
}

static bool run_all(running *r)
{
    const int32_t runs = r->o->runs ? r->o->runs : r->o->timed ? TIMED_RUNS : 1;
    for (int32_t i = 0; i < runs + r->o->timed; i++)
        if (bs_run(r->session, &r->error) != BS_OK)
            return false;
    return true;
}

static bool show_results(running *r)
{
    if (!files_empty(cli_files()))
        return cli_refused(&r->error);
    for (int32_t i = 0; i < r->n_outputs; i++) {
        cli_tensor *t = &r->outputs[i];
        int64_t dims[BS_MAX_RANK];
        if (bs_output_extents(r->session, t->name, dims) == BS_OK)
            cli_tensor_trim(t, dims);
        if (!r->o->quiet)
            cli_tensor_print(t);
        if (t->word && !cli_tensor_write(t, &r->error))
            return false;
        if (t->beside && !cli_tensor_compare(t, r->o->tolerance < 0 ? 1e300 : r->o->tolerance))
            r->apart = true;
    }
    return true;
}

static bool show_time(running *r)
{
    if (r->gpu.used)
        return device_time(r->session, r->o->runs ? r->o->runs : TIMED_RUNS, stdout, &r->error);
    const bs_tier tier = r->o->plan.desc.tier ? (bs_tier)r->o->plan.desc.tier : bs_tier_best();
    const cli_time_facts facts = {1, r->o->plan.desc.threads > 1 ? r->o->plan.desc.threads : 1, tier, SHOWN_OPS};
    bs_session_close(r->session);
    r->session = NULL;
    if (!r->o->quiet)
        printf("\n");
    return cli_time_print(r->time, &facts, &r->error);
}

static bool perform(running *r)
{
    const run_command *o = r->o;
    if (!device_find(&r->gpu, &o->plan.device, &r->error) ||
        !stream_tools_open(&r->stream, &o->plan.stream, cli_files(), &r->error) ||
        !cli_load_model(&r->l, o->path, r->stream.platform, &r->error))
        return false;
    if (o->plan.stream.buffered)
        bs_model_use_buffered(r->l.model);
    if (!build(r) || !open_session(r) || !bind_all(r))
        return false;
    if (o->launches)
        return device_launches(r->gpu.device, r->session, r->l.graph, o->json, stdout, &r->error);
    if (!run_all(r) || !show_results(r))
        return false;
    stream_facts streamed;
    stream_facts_get(&streamed, r->l.plan, r->session);
    if (!o->quiet)
        stream_summary(stdout, &streamed); /* nothing, where nothing streams */
    return !o->timed || show_time(r);
}

int cli_run(int count, char **words)
{
    static run_command o;
    static running r;
    const int usage = read_options(&o, count, words);
    if (usage != EXIT_SUCCESS || o.help)
        return o.help ? fputs(usage_text, stdout) < 0 : usage;
    memset(&r, 0, sizeof r);
    r.o = &o;
    const bool good = perform(&r);
    bs_session_close(r.session);
    cli_time_end(r.time);
    device_close(&r.gpu);
    for (int32_t i = 0; i < r.n_inputs; i++)
        cli_tensor_free(&r.inputs[i]);
    for (int32_t i = 0; i < r.n_outputs; i++)
        cli_tensor_free(&r.outputs[i]);
    cli_unload(&r.l);
    const bool written = stream_tools_close(&r.stream, NULL);
    if (!good)
        return cli_fail(&r.error);
    if (!written) {
        cli_say(&r.error, BS_ERROR_IO, strerror(errno), "the profile or the trace");
        return cli_fail(&r.error);
    }
    return r.apart ? EXIT_FAILURE : EXIT_SUCCESS;
}
