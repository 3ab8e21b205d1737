/* tags: asan tsan */
/* Promises: a handle, a name or an out-pointer that is NULL does no harm in any public function: what returns a status
 * returns BS_ERROR_ARGUMENT (a session that has no stream: its own refusal), what gives bytes or a handle gives none,
 * and what fills a struct fills it with zeros. One table, in null_calls.h of builder functions; a function of the
 * headers without a row is a failure. */
#include "against.h"
#include "declarations.h"
#include "profile_synth.h"
#include "tiny_model.h"

enum { MOST_FUNCTIONS = 256, HEADER_BYTES = 1 << 18 };

static const char *rows[1024];
static int32_t n_rows;

static void row(const char *function, bool ok, const char *text)
{
    rows[n_rows++] = function;
    check(ok, "%s: %s", function, text);
}

#define ROW(function, ...) row(#function, (__VA_ARGS__), #__VA_ARGS__)
#define REFUSED(call) ((call) == BS_ERROR_ARGUMENT)

static net_table weights;
static rig r;
static _Alignas(64) uint8_t graph_memory[1 << 20], plan_memory[1 << 20], reader_memory[1 << 16];
static const bs_value none = {0};
static const bs_router no_router = {0};

static bool zeros(const void *data, size_t bytes)
{
    static const uint8_t nothing[1 << 14];
    return bytes <= sizeof nothing && memcmp(data, nothing, bytes) == 0;
}
#define ZEROS(x) zeros(&(x), sizeof(x))

static bs_graph *some_net(void)
{
    bs_arena memory;
    bs_arena_init(&memory, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&memory, NULL);
    const bs_value x = bs_rows(g, bs_input(g, "x", BS_F32, BS_SHAPE2(6, 2)), none);
    const bs_router route = bs_route(g, x, none, &(bs_route_desc){.name = "r", .paths = 2});
    bs_value out[2];
    for (int32_t p = 0; p < 2; p++) {
        bs_block_begin(g, p ? "one" : "zero");
        out[p] = bs_linear(g, bs_scatter(g, route, p, x),
                           &(bs_linear_desc){.name = p ? "l1" : "l0", .out = 2, .no_bias = 1});
        bs_block_end(g);
        net_add(&weights, p ? "l1.weight" : "l0.weight", 2, (int64_t[]){2, 2}, 1);
    }
    bs_output(g, "y", bs_collect(g, bs_gather(g, route, out, none, NULL)));
    return g;
}

/* ----------------------------------------------------------------------------------- names, memory, the graph */

static void rows_of_names(void)
{
    ROW(bs_version, bs_version() == BS_VERSION);
    ROW(bs_status_name, strcmp(bs_status_name((bs_status)-99), "BS_UNKNOWN") == 0);
    ROW(bs_status_text, *bs_status_text((bs_status)-99) != '\0');
    ROW(bs_dtype_name, *bs_dtype_name((bs_dtype)-1) != '\0');
    ROW(bs_dtype_bytes, bs_dtype_bytes((bs_dtype)-1) == 0);
    ROW(bs_tier_name, *bs_tier_name((bs_tier)-1) != '\0');
    ROW(bs_tier_best, bs_tier_available(bs_tier_best()));
    ROW(bs_tier_available, !bs_tier_available((bs_tier)-1));
    ROW(bs_launch_mode_name, *bs_launch_mode_name((bs_launch_mode)-1) != '\0');
    ROW(bs_policy_name, *bs_policy_name((bs_policy)-1) != '\0');
    ROW(bs_predictor_name, *bs_predictor_name((bs_predictor)-1) != '\0');
    ROW(bs_platform_default, bs_platform_default() != NULL);
}

static void rows_of_memory(void)
{
    bs_arena a;
    bs_arena_init(NULL, "none", graph_memory, 64);
    bs_arena_init(&a, NULL, NULL, 64);
    ROW(bs_arena_init, a.base == NULL && a.size == 0);
    ROW(bs_arena_take,
        bs_arena_take(NULL, 0) == NULL && bs_arena_take(NULL, 64) == NULL && bs_arena_take(&a, 0) == NULL);
}

static void rows_of_graph(void)
{
    bs_graph *const g = NULL;
    bs_value indices = {7};
    char text[8] = "before";
    ROW(bs_graph_bytes, bs_graph_bytes(NULL) > 0);
    ROW(bs_graph_create, bs_graph_create(NULL, NULL) == NULL);
    ROW(bs_graph_check, bs_graph_check(NULL, NULL) == BS_ERROR_ARGUMENT);
    ROW(bs_graph_describe, bs_graph_describe(NULL, 1, text, sizeof text) == 0 && text[0] == '\0' &&
                               bs_graph_describe(r.plan->graph, 1, NULL, 9) > 9 &&
                               bs_graph_describe(NULL, 1, NULL, 9) == 0);
    ROW(bs_op_describe,
        bs_op_describe(0, NULL, 9) == bs_op_describe(0, text, sizeof text) && bs_op_describe(-1, NULL, 9) == 0);
    bs_port_facts port;
    bs_router_facts router;
    ROW(bs_graph_port_get, bs_graph_port_get(NULL, "x", &port) == BS_ERROR_ARGUMENT &&
                               bs_graph_port_get(r.plan->graph, NULL, &port) == BS_ERROR_ARGUMENT &&
                               bs_graph_port_get(r.plan->graph, "x", NULL) == BS_ERROR_ARGUMENT);
    bs_node_facts node;
    ROW(bs_graph_port_name, !bs_graph_port_name(NULL, 0) && !bs_graph_port_name(r.plan->graph, -1) &&
                                bs_graph_port_name(r.plan->graph, 0) && !bs_graph_port_name(r.plan->graph, 9999));
    ROW(bs_graph_node_get, bs_graph_node_get(NULL, 1, &node) == BS_ERROR_ARGUMENT &&
                               bs_graph_node_get(r.plan->graph, 1, NULL) == BS_ERROR_ARGUMENT &&
                               bs_graph_node_get(r.plan->graph, 0, &node) == BS_ERROR_ARGUMENT);
    ROW(bs_graph_router_get, bs_graph_router_get(NULL, "r", &router) == BS_ERROR_ARGUMENT &&
                                 bs_graph_router_get(r.plan->graph, NULL, &router) == BS_ERROR_ARGUMENT &&
                                 bs_graph_router_get(r.plan->graph, "r", NULL) == BS_ERROR_ARGUMENT);
    ROW(bs_symbol, bs_symbol(g, "S", 4) == 0 && bs_symbol(g, NULL, 4) == 0);
    ROW(bs_times, bs_times(g, 4, 2) == 0);
    ROW(bs_shape_of, BS_SHAPE2(3, 4).dim[1] == 4);
    bs_output(g, NULL, none);
    ROW(bs_output, true);
    bs_state_write(g, none, none);
    ROW(bs_state_write, true);
    bs_state_append(g, none, none, none);
    ROW(bs_state_append, true);
    bs_look_ahead(g, none, NULL);
    ROW(bs_look_ahead, true);
    bs_block_begin(g, NULL);
    ROW(bs_block_begin, true);
    bs_block_end(g);
    ROW(bs_block_end, true);
    ROW(bs_topk, bs_topk(g, none, 1, NULL).id == 0 && bs_topk(g, none, 1, &indices).id == 0 && indices.id == 0);
}

/* Each builder upon no graph, and upon one with everything else missing, which must refuse with a message and no
 * crash. */
#define BUILD(function, ...)                                                     \
    do {                                                                         \
        bs_graph *g = NULL;                                                      \
        const bool without = (__VA_ARGS__).id == 0;                              \
        bs_arena memory;                                                         \
        bs_arena_init(&memory, "builder", plan_memory, sizeof plan_memory);      \
        g = bs_graph_create(&memory, NULL);                                      \
        const bool refused = (__VA_ARGS__).id == 0;                              \
        bs_error why;                                                            \
        row(#function, without &&refused &&bs_graph_check(g, &why) != BS_OK && *why.message, #__VA_ARGS__); \
    } while (0)

static void rows_of_builders(void)
{
#include "null_calls.h"
    BUILD(bs_input, bs_input(g, NULL, BS_F32, BS_SHAPE1(4)));
    BUILD(bs_state, bs_state(g, NULL, BS_F32, BS_SHAPE1(4)));
    BUILD(bs_loop_end, (bs_loop_end(g, no_router, none), none));
}

/* ------------------------------------------------------------------------------------------- plan and session */

static void rows_of_plan(void)
{
    bs_arena memory;
    bs_arena_init(&memory, "plan", plan_memory, sizeof plan_memory);
    const bs_plan_desc streams = {.slot_bytes = UINT64_MAX};
    const bs_plan *plan = bs_plan_create(&memory, NULL, r.plan->graph, &streams, NULL);
    bs_sizes sizes = {1, 1, 1, 1, 1, 1, 1};
    bs_stream_plan stream = {1, 1, 1, 1, 1};
    bs_stream_unit_facts unit;
    bs_stream_phase_facts phase;
    char text[8] = "before";
    ROW(bs_plan_bytes, bs_plan_bytes(NULL, NULL) == 0 && bs_plan_bytes(r.plan->graph, NULL) > 0);
    ROW(bs_plan_create, bs_plan_create(NULL, NULL, NULL, NULL, NULL) == NULL &&
                            bs_plan_create(&memory, NULL, NULL, NULL, NULL) == NULL &&
                            bs_plan_create(NULL, NULL, r.plan->graph, NULL, NULL) == NULL && plan);
    static BS_ALIGNED uint8_t image[1 << 16];
    const size_t bytes = bs_plan_image_bytes(plan);
    ROW(bs_plan_image_bytes, bs_plan_image_bytes(NULL) == 0 && bytes > 0 && bytes <= sizeof image);
    ROW(bs_plan_save, bs_plan_save(NULL, image, sizeof image, NULL) == BS_ERROR_ARGUMENT &&
                          bs_plan_save(plan, NULL, bytes, NULL) == BS_ERROR_ARGUMENT &&
                          bs_plan_save(plan, image, bytes, NULL) == BS_OK);
    ROW(bs_plan_open_bytes, bs_plan_open_bytes(NULL) == 0 && bs_plan_open_bytes(r.plan->graph) > 0);
    ROW(bs_plan_open, bs_plan_open(NULL, NULL, r.plan->graph, image, bytes, NULL) == NULL &&
                          bs_plan_open(&memory, NULL, NULL, image, bytes, NULL) == NULL &&
                          bs_plan_open(&memory, NULL, r.plan->graph, NULL, bytes, NULL) == NULL &&
                          bs_plan_open(&memory, NULL, r.plan->graph, image, bytes, NULL) != NULL);
    ROW(bs_plan_verify, bs_plan_verify(NULL, &memory, NULL) == BS_ERROR_ARGUMENT &&
                            bs_plan_verify(plan, NULL, NULL) == BS_ERROR_ARGUMENT &&
                            bs_plan_verify(plan, &memory, NULL) == BS_OK);
    bs_plan_sizes(plan, NULL);
    bs_plan_sizes(NULL, &sizes);
    ROW(bs_plan_sizes, ZEROS(sizes));
    ROW(bs_plan_report, bs_plan_report(plan, NULL, 99) == bs_plan_report(plan, text, sizeof text) &&
                            bs_plan_report(plan, NULL, 0) > 99 && bs_plan_report(NULL, text, sizeof text) == 0 &&
                            text[0] == '\0');
    bs_plan_stream_get(plan, NULL);
    bs_plan_stream_get(NULL, &stream);
    ROW(bs_plan_stream_get, ZEROS(stream));
    ROW(bs_plan_unit_get, bs_plan_unit_get(plan, 0, NULL) == BS_ERROR_ARGUMENT &&
                              bs_plan_unit_get(NULL, 0, &unit) == BS_ERROR_ARGUMENT &&
                              bs_plan_unit_get(plan, 0, &unit) == BS_OK);
    ROW(bs_plan_phase_get, bs_plan_phase_get(plan, 0, NULL, NULL) == BS_ERROR_ARGUMENT &&
                               bs_plan_phase_get(NULL, 0, &phase, NULL) == BS_ERROR_ARGUMENT &&
                               bs_plan_phase_get(plan, 0, &phase, NULL) == BS_OK);
}

static void rows_of_session(void)
{
    const bs_buffer nothing = {.dtype = BS_F32};
    bs_decision decision;
    bs_run_stats stats = {1, 1, 1};
    bs_stream_stats stream = {.hits = 1};
    bs_prediction prediction = {1, 1, 1};
    bs_launch_mode best;
    bs_session *s = r.session;
    const bs_weights no_weights = bs_weights_from_table(NULL);
    ROW(bs_weights_from_table, ZEROS(no_weights));
    ROW(bs_session_create,
        bs_session_create(NULL, r.plan, NULL, NULL) == NULL && bs_session_create(&r.memory, NULL, NULL, NULL) == NULL);
    ROW(bs_bind, REFUSED(bs_bind(NULL, "x", &nothing, NULL)) && REFUSED(bs_bind(s, NULL, &nothing, NULL)) &&
                     REFUSED(bs_bind(s, "x", NULL, NULL)) && REFUSED(bs_bind(s, "x", &nothing, NULL)));
    ROW(bs_set_route, bs_set_route(NULL, "r", NULL, NULL, NULL) == BS_ERROR_ARGUMENT &&
                          bs_set_route(s, NULL, NULL, NULL, NULL) == BS_ERROR_ARGUMENT &&
                          bs_set_route(s, "r", NULL, NULL, NULL) == BS_OK);
    ROW(bs_run, bs_run(NULL, NULL) == BS_ERROR_ARGUMENT);
    ROW(bs_submit, bs_submit(NULL, NULL) == BS_ERROR_ARGUMENT);
    ROW(bs_wait, bs_wait(NULL, NULL) == BS_ERROR_ARGUMENT);
    bs_reset_state(NULL);
    ROW(bs_reset_state, true);
    ROW(bs_state_valid, !bs_state_valid(NULL));
    ROW(bs_decision_get,
        REFUSED(bs_decision_get(NULL, "r", &decision)) && REFUSED(bs_decision_get(s, NULL, &decision)) &&
            REFUSED(bs_decision_get(s, "r", NULL)) && bs_decision_get(s, "r", &decision) == BS_OK);
    int64_t dims[BS_MAX_RANK];
    ROW(bs_output_extents, REFUSED(bs_output_extents(NULL, "y", dims)) && REFUSED(bs_output_extents(s, NULL, dims)) &&
                               REFUSED(bs_output_extents(s, "y", NULL)) && REFUSED(bs_output_extents(s, "x", dims)) &&
                               REFUSED(bs_output_extents(s, "none", dims)));
    ROW(bs_bound_extents,
        REFUSED(bs_bound_extents(NULL, "y", dims, NULL)) && REFUSED(bs_bound_extents(s, NULL, dims, NULL)) &&
            REFUSED(bs_bound_extents(s, "y", NULL, NULL)) && REFUSED(bs_bound_extents(s, "x", dims, NULL)) &&
            REFUSED(bs_bound_extents(s, "none", dims, NULL)));
    bs_session_stats(s, NULL);
    bs_session_stats(NULL, &stats);
    ROW(bs_session_stats, ZEROS(stats));
    ROW(bs_session_report, bs_session_report(NULL, NULL, 9) == 0 && bs_session_report(s, NULL, 9) > 99);
    bs_session_stream_stats(s, NULL);
    bs_session_stream_stats(NULL, &stream);
    ROW(bs_session_stream_stats, ZEROS(stream));
    ROW(bs_session_prediction_get,
        bs_session_prediction_get(s, 0, BS_PREDICT_KNOWN, NULL) == BS_ERROR_ARGUMENT &&
            bs_session_prediction_get(NULL, 0, BS_PREDICT_KNOWN, &prediction) == BS_ERROR_ARGUMENT &&
            ZEROS(prediction));
    ROW(bs_cuda_choose, bs_cuda_choose(NULL, 1, &best, NULL, NULL) == BS_ERROR_UNSUPPORTED &&
                            bs_cuda_choose(s, 1, NULL, NULL, NULL) == BS_ERROR_UNSUPPORTED);
    bs_session_close(NULL);
    ROW(bs_session_close, true);
}

/* ---------------------------------------------------------------------------------------- models and profiles */

static void rows_of_models(void)
{
    bs_model_facts facts = {.version = 1};
    bs_model_block_facts block;
    bs_weight_info info;
    tiny_begin((extra)0);
    bs_model *model = bs_model_open_memory(&arena, file.bytes, file.n, &error);
    check(model != NULL, "a model is there: %s", error.message);
    ROW(bs_model_file_bytes,
        bs_model_file_bytes(NULL, NULL, NULL) == 0 && bs_model_file_bytes(NULL, "models", NULL) == 0);
    ROW(bs_model_reader_bytes,
        bs_model_reader_bytes(NULL, NULL) == 0 && bs_model_reader_bytes(&(bs_reader){.size = 4}, NULL) == 0);
    ROW(bs_model_memory_bytes,
        bs_model_memory_bytes(NULL, 4, NULL) == 0 && bs_model_memory_bytes(file.bytes, file.n, NULL) > 0);
    ROW(bs_model_open_file,
        !bs_model_open_file(&arena, NULL, NULL, NULL) && !bs_model_open_file(NULL, NULL, "x", NULL));
    ROW(bs_model_open_reader,
        !bs_model_open_reader(&arena, NULL, NULL) && !bs_model_open_reader(NULL, &(bs_reader){.size = 4}, NULL));
    ROW(bs_model_open_memory,
        !bs_model_open_memory(&arena, NULL, 4, NULL) && !bs_model_open_memory(NULL, file.bytes, file.n, NULL));
    bs_model_use_buffered(NULL);
    ROW(bs_model_use_buffered, true);
    bs_model_facts_get(model, NULL);
    bs_model_facts_get(NULL, &facts);
    ROW(bs_model_facts_get, ZEROS(facts));
    const bs_graph_desc desc = bs_model_graph_desc(NULL);
    ROW(bs_model_graph_desc, ZEROS(desc));
    ROW(bs_model_build, bs_model_build(NULL, NULL, NULL, NULL) == BS_ERROR_ARGUMENT &&
                            bs_model_build(model, NULL, NULL, NULL) == BS_ERROR_ARGUMENT);
    const bs_weights no_weights = bs_model_weights(NULL);
    ROW(bs_model_weights, ZEROS(no_weights));
    ROW(bs_model_can_stream, bs_model_can_stream(NULL, NULL) == BS_ERROR_ARGUMENT);
    ROW(bs_model_block_get, bs_model_block_get(NULL, 0, &block) == BS_ERROR_ARGUMENT &&
                                bs_model_block_get(model, 0, NULL) == BS_ERROR_ARGUMENT &&
                                bs_model_block_get(model, 0, &block) == BS_OK);
    ROW(bs_model_weight_get, bs_model_weight_get(NULL, 0, NULL, NULL, &info) == BS_ERROR_ARGUMENT &&
                                 bs_model_weight_get(model, 0, NULL, NULL, NULL) == BS_OK);
    ROW(bs_model_check, bs_model_check(NULL, NULL) == BS_ERROR_ARGUMENT);
    bs_model_close(model);
    bs_model_close(NULL);
    ROW(bs_model_close, true);
}

static void rows_of_traces(const bs_reader *reader)
{
    bs_trace trace;
    ROW(bs_trace_load, bs_trace_load(NULL, reader, &trace, NULL) == BS_ERROR_ARGUMENT &&
                           bs_trace_load(&arena, NULL, &trace, NULL) == BS_ERROR_ARGUMENT &&
                           bs_trace_load(&arena, reader, NULL, NULL) == BS_ERROR_ARGUMENT &&
                           bs_trace_load(&arena, reader, &trace, NULL) == BS_OK);
    bs_replay_result result;
    const bs_replay_desc desc = {.slot_bytes = 1 << 20, .bytes_per_second = 1000000};
    ROW(bs_replay_bytes, bs_replay_bytes(NULL) == 0 && bs_replay_bytes(&trace) > 0);
    ROW(bs_replay, bs_replay(NULL, &desc, &arena, &result, NULL) == BS_ERROR_ARGUMENT &&
                       bs_replay(&trace, NULL, &arena, &result, NULL) == BS_ERROR_ARGUMENT &&
                       bs_replay(&trace, &desc, NULL, &result, NULL) == BS_ERROR_ARGUMENT &&
                       bs_replay(&trace, &desc, &arena, NULL, NULL) == BS_ERROR_ARGUMENT);
}

static void rows_of_profiles(void)
{
    synth_bytes bytes = {0};
    uint64_t dropped;
    bs_profile_facts facts = {.units = 1};
    bs_profile_router_facts router;
    bs_stream_unit_facts unit;
    bs_stream_phase_facts phase;
    bs_event event;
    bs_arena_init(&arena, "reader", reader_memory, sizeof reader_memory);
    static uint8_t ring[1 << 14];
    bs_profile *profile = bs_profile_create(
        &arena, &(bs_profile_desc){.write = synth_write, .user = &bytes, .memory = ring, .bytes = sizeof ring}, &error);
    const bs_profile_header_desc header = synth_header();
    bs_profile_header(profile, &header);
    ROW(bs_profile_create, !bs_profile_create(NULL, NULL, NULL) && !bs_profile_create(&arena, NULL, NULL) && profile);
    ROW(bs_profile_close,
        bs_profile_close(NULL, &dropped) == BS_OK && dropped == 0 && bs_profile_close(profile, NULL) == BS_OK);
    const bs_reader reader = synth_reader(&bytes);
    bs_profile_reader *p = bs_profile_open(&arena, &reader, &error);
    check(p != NULL, "a profile is there: %s", error.message);
    ROW(bs_profile_open, !bs_profile_open(NULL, &reader, NULL) && !bs_profile_open(&arena, NULL, NULL));
    bs_profile_facts_get(p, NULL);
    bs_profile_facts_get(NULL, &facts);
    ROW(bs_profile_facts_get, ZEROS(facts));
    bs_profile_node_facts node;
    ROW(bs_profile_node_get, bs_profile_node_get(NULL, 1, &node) == BS_ERROR_ARGUMENT &&
                                 bs_profile_node_get(p, 1, NULL) == BS_ERROR_ARGUMENT &&
                                 bs_profile_node_get(p, 1, &node) == BS_ERROR_ARGUMENT);
    ROW(bs_profile_router_get, bs_profile_router_get(NULL, 1, &router) == BS_ERROR_ARGUMENT &&
                                   bs_profile_router_get(p, 1, NULL) == BS_ERROR_ARGUMENT &&
                                   bs_profile_router_get(p, 1, &router) == BS_OK);
    ROW(bs_profile_unit_get, bs_profile_unit_get(NULL, 0, &unit, NULL) == BS_ERROR_ARGUMENT &&
                                 bs_profile_unit_get(p, 0, NULL, NULL) == BS_ERROR_ARGUMENT &&
                                 bs_profile_unit_get(p, 0, &unit, NULL) == BS_OK);
    ROW(bs_profile_phase_get, bs_profile_phase_get(NULL, 0, &phase, NULL) == BS_ERROR_ARGUMENT &&
                                  bs_profile_phase_get(p, 0, NULL, NULL) == BS_ERROR_ARGUMENT &&
                                  bs_profile_phase_get(p, 0, &phase, NULL) == BS_OK);
    ROW(bs_profile_next, !bs_profile_next(NULL, &event, &error) && error.status == BS_ERROR_ARGUMENT &&
                             !bs_profile_next(p, NULL, NULL) && !bs_profile_next(p, &event, NULL) &&
                             !bs_profile_next(p, &event, &error) && error.status == BS_OK);
    bs_profile_rewind(NULL);
    ROW(bs_profile_rewind, true);
    rows_of_traces(&reader);
    synth_free(&bytes);
}

/* ---------------------------------------------------------------------------------------- is the table complete? */

/* Of the CUDA backend, which is not linked here: test_cuda_messages.c. */
static bool is_elsewhere(const char *name)
{
    return strcmp(name, "bs_cuda_open") == 0 || strcmp(name, "bs_cuda_close") == 0 ||
           strcmp(name, "bs_cuda_facts_get") == 0 || strcmp(name, "bs_cuda_launches") == 0;
}

static bool has_row(const char *name)
{
    for (int32_t i = 0; i < n_rows; i++)
        if (strcmp(rows[i], name) == 0)
            return true;
    return false;
}

static void table_is_complete(void)
{
    static const char *const headers[] = {"brainstorm.h", "brainstorm_replay.h"};
    static char text[HEADER_BYTES];
    size_t n = 0;
    int32_t functions = 0;
    for (int32_t i = 0; i < 2; i++) {
        FILE *header = fopen(headers[i], "rb");
        const size_t got = header ? fread(text + n, 1, sizeof text - 1 - n, header) : 0;
        n += got;
        if (check(got > 0 && n < sizeof text - 1, "%s is read", headers[i]))
            fclose(header);
    }
    keep_declarations(text);
    for (char *at = strstr(text, "bs_"); at; at = strstr(at + 1, "bs_")) {
        char name[64] = "";
        size_t length = 0;
        while (length < sizeof name - 1 && (at[length] == '_' || (at[length] >= 'a' && at[length] <= 'z') ||
                                            (at[length] >= '0' && at[length] <= '9')))
            length++;
        if (at[length] != '(' || (at > text && at[-1] == '*' && at[-2] == '('))
            continue;
        memcpy(name, at, length);
        functions++;
        check(is_elsewhere(name) || has_row(name), "%s has a row", name);
    }
    check(functions > 120 && functions < MOST_FUNCTIONS, "the headers have %d functions", functions);
}

int main(void)
{
    const bs_graph *g = some_net();
    if (!check(rig_plan(&r, g, NULL) && rig_session(&r, &weights.table, NULL, 0), "a session is there: %s",
               r.error.message))
        return check_end();
    rows_of_names();
    rows_of_memory();
    rows_of_graph();
    rows_of_builders();
    rows_of_plan();
    rows_of_session();
    rows_of_models();
    rows_of_profiles();
    table_is_complete();
    bs_session_close(r.session);
    return check_end();
}
