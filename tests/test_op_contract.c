/* tags: plain */
/* Promises: no more than three flags and rules are there for one op alone; of each op the entries of its contract fit
 * together. What they say of a kernel test_op_claims.c runs, of weights test_op_weights.c. */
#include "check.h"
#include "ops/list.h"
#include "ops/table.h"
#include "plan/device.h"

/* -------------------------------------------------------------------------------------------------- all fields */

/* Every field of the contract is here, in its order: VALUE is a number or what each op has of its own, FLAG is what an
 * op has or has not, PART is a structure with a list of its own. */
#define ROWS(VALUE, FLAG) VALUE(rows.of) FLAG(rows.captures) FLAG(rows.captures_first) FLAG(rows.refuses)
#define LAYOUT(FLAG)                                                                                        \
    FLAG(layout.images) FLAG(layout.edges) FLAG(layout.channels_last) FLAG(layout.picks) FLAG(layout.axes) \
    FLAG(layout.empty)
#define MEMORY(FLAG)                                                                                        \
    FLAG(memory.elements) FLAG(memory.lines) FLAG(memory.chained) FLAG(memory.sums) FLAG(memory.updates)   \
    FLAG(memory.on_device)
#define WEIGHTS(FLAG) FLAG(weights.specs) FLAG(weights.prepare) FLAG(weights.same_layout) FLAG(weights.by_rows)
#define RULES(FLAG, PART) PART(weights) FLAG(halo) FLAG(plan) FLAG(enlarges) FLAG(upgrade)
#define OP(VALUE, FLAG, PART)                                                                                   \
    VALUE(name) VALUE(fields) VALUE(max_in) VALUE(min_in) VALUE(params_bytes) VALUE(n_fields) VALUE(work)       \
    VALUE(more_out) VALUE(bound) FLAG(named) FLAG(variadic) PART(rows) PART(layout) PART(memory) PART(roles)    \
    FLAG(infer) FLAG(flops) VALUE(rules) FLAG(run)

/* None is missing: an initialiser without it would be an error here, and one that is too long is one anyway. */
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wmissing-field-initializers"
#endif
#define ONE(field)  0,
#define SOME(field) {0},
typedef struct every_field {
    bs_rows_contract rows;
    bs_layout_contract layout;
    bs_memory_contract memory;
    bs_weights_contract weights;
    bs_op_rules rules;
    bs_op op;
} every_field;
static const every_field none = {
    {ROWS(ONE, ONE)}, {LAYOUT(ONE)}, {MEMORY(ONE)}, {WEIGHTS(ONE)}, {RULES(ONE, SOME)}, {OP(ONE, ONE, SOME)}};
#undef ONE
#undef SOME
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

/* ------------------------------------------------------------------------------------------------------ singles */

enum { MOST_FLAGS = 64, MOST_SINGLES = 3 };

typedef struct flag { const char *name, *op; int32_t ops; } flag;

static flag flags[MOST_FLAGS];
static int32_t n_flags;

/* One more flag, and whether `op` has it: for each op in the same order. */
static void count(int32_t *at, const char *name, bool has, const bs_op *op)
{
    if (*at >= MOST_FLAGS)
        exit(1);
    flag *f = &flags[(*at)++];
    f->name = name;
    f->op = has ? op->name : f->op;
    f->ops += has;
    n_flags = *at;
}

static void count_op(const bs_op *op)
{
    int32_t at = 0;
    const bs_op_rules *rules = op->rules ? op->rules : &none.rules;
#define NOTHING(field)
#define OF_OP(field)    count(&at, #field, op->field, op);
#define OF_RULES(field) count(&at, #field, rules->field, op);
    ROWS(NOTHING, OF_OP)
    LAYOUT(OF_OP)
    MEMORY(OF_OP)
    WEIGHTS(OF_RULES)
    RULES(OF_RULES, NOTHING)
    OP(NOTHING, OF_OP, NOTHING)
#undef NOTHING
#undef OF_OP
#undef OF_RULES
    static const char *const sources[] = {[BS_ROWS_SEGMENT] = "rows.of = BS_ROWS_SEGMENT",
                                          [BS_ROWS_DECIDED] = "rows.of = BS_ROWS_DECIDED",
                                          [BS_ROWS_AROUND] = "rows.of = BS_ROWS_AROUND"};
    for (int32_t of = 0; of < (int32_t)(sizeof sources / sizeof *sources); of++)
        if (sources[of])
            count(&at, sources[of], op->rows.of == of, op);
    if (op->rows.of > BS_ROWS_AROUND)
        check(0, "%s: rows.of is none of those that are counted", op->name);
}

static void test_singles(void)
{
    int32_t singles = 0, unused = 0;
    for (int32_t i = 0; i < bs_op_count(); i++)
        count_op(bs_op_get(i));
    for (int32_t i = 0; i < n_flags; i++) {
        if (flags[i].ops == 1)
            printf("one op has %s: %s\n", flags[i].name, flags[i].op);
        singles += flags[i].ops == 1;
        unused += flags[i].ops == 0;
    }
    check(singles <= MOST_SINGLES && unused == 0,
          "of %d flags and rules, one op alone has %d, expected %d at most; none has %d", n_flags, singles,
          MOST_SINGLES, unused);
}

/* ---------------------------------------------------------------------------------------------- what goes together */

static bool has_role(const bs_op *op, bs_role role)
{
    bool has = false;
    for (int32_t i = 0; i < BS_MAX_OPERANDS; i++)
        has = has || op->roles[i] == (uint8_t)role;
    return has;
}

/* A step of a tail is called without weights of its own, in whatever parts its head made, and in its head's place. */
enum { MOST_WORDS = (int32_t)(sizeof((bs_device_tail *)0)->p / 4) };
static const char *wrong_step(const bs_op *op)
{
    const bs_memory_contract m = op->memory;
    const bs_op_rules *rules = op->rules ? op->rules : &none.rules;
    const bool step = m.elements || m.lines || rules->enlarges;
    if (step && (op->work != BS_WORK_CALL || !bs_op_is_pure(op) || op->more_out || !op->layout.images))
        return "a step makes its rows one by one, in part, and refuses none";
    if ((m.elements || rules->enlarges) && bs_op_weights_of(op))
        return "a step has no weights";
    if ((m.elements + m.lines + (rules->enlarges != NULL) + m.updates) > 1)
        return "it goes by elements, by lines, enlarges, or updates";
    if (m.chained && !m.elements)
        return "chains go by elements";
    if (m.chained && (op->n_fields > MOST_WORDS || bs_op_max_in(op) > 2))
        return "a step of a chain has two operands and the first words of its descriptor";
    if (m.sums && !(m.elements && op->min_in == 2 && bs_op_max_in(op) == 2))
        return "a sum is of two operands, by elements";
    if (rules->enlarges && !(rules->halo && op->min_in == 1 && bs_op_max_in(op) == 1))
        return "what enlarges needs less of its one operand than it makes";
    if (m.updates && !(op->work == BS_WORK_CALL && bs_op_is_by_row(op) && op->min_in > 1 && op->more_out == 0))
        return "an update is of operand 0 by another";
    return m.on_device && !rules->plan ? "no rule asks for scratch" : NULL;
}

static const char *wrong_layout(const bs_op *op)
{
    const bs_layout_contract l = op->layout;
    const bool call = op->work == BS_WORK_CALL;
    if (l.images && !(bs_op_is_by_row(op) && op->more_out == 0))
        return "bands are of one result of a row";
    if (bs_op_has_halo(op) && !l.images)
        return "a halo is of an image";
    if (l.edges && !(call && bs_op_has_halo(op)))
        return "what finds edges looks beyond what it makes";
    if (l.channels_last && call && !l.images)
        return "channels are of an image";
    if (l.picks && !(call && op->min_in > 1 && !l.images && op->rows.captures_first))
        return "what picks goes by another operand, in a table that may be the root's";
    return (l.axes || l.empty) && !call ? "nothing is called" : NULL;
}

static const char *wrong_weights(const bs_op *op)
{
    const bs_op_rules *rules = op->rules ? op->rules : &none.rules;
    const bs_weights_contract w = rules->weights;
    if ((w.prepare || w.same_layout || w.by_rows) && !w.specs)
        return "it has no weights";
    if ((w.same_layout || w.by_rows) && !w.prepare)
        return "weights that are copied lie in one way";
    if (w.prepare && !rules->plan)
        return "no rule says how many bytes prepared weights take";
    return rules->upgrade && op->n_fields == 0 ? "it has no fields" : NULL;
}

static const char *wrong_rows(const bs_op *op)
{
    const bs_rows_contract r = op->rows;
    const bool several = bs_op_max_in(op) > 1;
    if (r.captures_first && !r.captures)
        return "operand 0 alone is captured";
    if ((r.captures || r.refuses) && !bs_op_is_by_row(op))
        return "only rows in their place capture, or are refused one by one";
    if (r.captures && !several)
        return "there is no operand to capture";
    if ((r.of == BS_ROWS_SEGMENT || r.of == BS_ROWS_DECIDED || r.of == BS_ROWS_AROUND) && op->work != BS_WORK_CALL)
        return "nothing is called";
    if ((op->work == BS_WORK_VIEW || op->work == BS_WORK_MOVE || op->work == BS_WORK_ROUTE) && r.of != BS_ROWS_ANY)
        return "a rule says where such rows are";
    return NULL;
}

static const char *wrong_operands(const bs_op *op)
{
    const int32_t most = bs_op_max_in(op);
    if (most < op->min_in)
        return "max_in is less than min_in";
    if (!op->variadic && most > BS_MAX_OPERANDS)
        return "more operands than calls have";
    if (op->variadic && !bs_op_is_structural(op) && most > BS_MAX_OPERANDS)
        return "more operands than calls have";
    for (int32_t i = 0; i < BS_MAX_OPERANDS; i++) {
        if (op->roles[i] > BS_ROLE_CACHE_LENGTH)
            return "a role that is none";
        if (op->roles[i] && i >= most)
            return "a role of no operand";
    }
    if (has_role(op, BS_ROLE_STATE) && !(op->work == BS_WORK_MOVE && op->roles[0] == BS_ROLE_STATE))
        return "a state that nothing is moved to";
    if (has_role(op, BS_ROLE_KEYS) && op->rows.of != BS_ROWS_SEGMENT)
        return "keys of no segment";
    if (has_role(op, BS_ROLE_CACHE_LENGTH) && op->rows.of != BS_ROWS_SEGMENT && !has_role(op, BS_ROLE_STATE))
        return "a cache of no segment";
    return has_role(op, BS_ROLE_LIKE) && bs_op_is_by_row(op) ? "an operand that its kernel would read" : NULL;
}

static const char *wrong_place(const bs_op *op)
{
    if (op->bound && !op->named)
        return "nothing binds what has no name";
    if ((op->bound & BS_BOUND_READ) && !(op->work == BS_WORK_GIVEN && bs_op_max_in(op) == 0))
        return "what is bound to be read is given";
    if (op->bound == BS_BOUND_WRITTEN && op->work != BS_WORK_MOVE)
        return "what is bound to be written is moved there";
    if (op->named && !op->bound && op->work != BS_WORK_ROUTE)
        return "a name that nothing asks for";
    if (op->work == BS_WORK_CALL && !op->run)
        return "no kernel";
    return (op->fields != NULL) != (op->n_fields > 0) ? "fields that nothing counts" : NULL;
}

static void test_op(const bs_op *op)
{
    const char *(*const rules[])(const bs_op *) = {wrong_step,    wrong_layout,   wrong_weights,
                                                   wrong_rows, wrong_operands, wrong_place};
    const char *wrong = NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !wrong; i++)
        wrong = rules[i](op);
    check(!wrong, "%s: what it says of itself goes together%s%s", op->name, wrong ? ": " : "", wrong ? wrong : "");
}

/* -------------------------------------------------------------------------------------------------- of a device */

/* The switches of chains in src/cuda/ have the functions of those that the list of ops says so of. */
static void test_chains(const bs_op *op)
{
#define DEVICE_OF(name, device) BS_DEVICE_##device,
    static const uint8_t devices[] = {BS_OP_LIST(DEVICE_OF)};
#undef DEVICE_OF
    const uint8_t device = devices[bs_op_index(op->name)];
    check(op->memory.chained == (device == BS_DEVICE_CHAIN) && op->memory.lines == (device == BS_DEVICE_LINES),
          "%s: chains of a device have its function, as ops/list.h says", op->name);
}

int main(void)
{
    test_singles();
    for (int32_t i = 0; i < bs_op_count(); i++)
        test_op(bs_op_get(i));
    for (int32_t i = 0; i < bs_op_count(); i++)
        test_chains(bs_op_get(i));
    return check_end();
}
