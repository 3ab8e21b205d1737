/* run/side.c - an instruction at top level as tasks of the worker threads, and instructions of one time side by side,
 * as tasks of one job: experts with a few rows each, branches of a network.
 * Relies on run/exec.h, and on what plan/plan.h says of bs_plan_side_by_side. Must never let a bit depend on how
 * work is cut, or on which of several failures comes first. */
#include "run/exec.h"

void bs_exec_rows(const bs_context *c, const bs_instr *i, int32_t row, int32_t rows, int32_t band)
{
    if (i->kind == BS_INSTR_CALL)
        bs_exec_call(c, i, row, rows, band);
    else if (!bs_instr_loads(i) || !bs_operand_is_seen(c, i->target))
        bs_move_rows(c, i, row, rows);
}

/* An instruction as tasks of the workers. */
typedef struct instr_job {
    const bs_instr *instr;
    int32_t rows, batch, bands; /* bands: tasks a batch of rows, 0 = not cut */
    int32_t end;                /* of its tasks among those of all that are side by side */
} instr_job;

enum { SIDE_JOBS = 32, SIDE_TASKS = 1 << 20, SIDE_WORK = 5000000 };

/* Instructions side by side. */
typedef struct side_job {
    bs_session *session;
    int32_t count;
    double work; /* in operations, about */
    instr_job jobs[SIDE_JOBS];
} side_job;

static int32_t tasks_of(const side_job *side) { return side->count > 0 ? side->jobs[side->count - 1].end : 0; }

static void begin_jobs(side_job *side, bs_session *s)
{
    side->session = s;
    side->count = 0;
    side->work = 0;
}

static void add_job(side_job *side, const bs_instr *i, int32_t rows)
{
    const bs_session *s = side->session;
    instr_job *job = &side->jobs[side->count];
    *job = (instr_job){i, rows, rows > 1 ? bs_exec_batch(s, i) : 1, bs_step_of(s, i)->bands, tasks_of(side)};
    job->end += (int32_t)bs_ceil_div(rows, job->batch) * bs_max_i32(job->bands, 1);
    side->count++;
}

static void instr_task(void *user, int32_t index, int32_t thread)
{
    const side_job *side = user;
    const instr_job *job = side->jobs;
    if (bs_exec_failed(side->session))
        return;
    bs_context c = side->session->root; /* rows and decisions of the root, scratch of the thread */
    c.thread = thread;
    c.scratch = side->session->contexts[thread].scratch;
    for (; index >= job->end; job++)
        ;
    index -= job == side->jobs ? 0 : job[-1].end;
    const int32_t bands = bs_max_i32(job->bands, 1), first = index / bands * job->batch;
    bs_exec_rows(&c, job->instr, first, bs_min_i32(job->batch, job->rows - first), job->bands > 0 ? index % bands : -1);
}

/* Instructions of a single task each are worth the workers only where they take longer than it takes to wake these. */
static void run_jobs(side_job *side)
{
    bs_session *s = side->session;
    const int32_t tasks = tasks_of(side);
    if (tasks > side->count || (tasks > 1 && side->work >= SIDE_WORK)) {
        bs_workers_run(&s->pool, instr_task, side, tasks);
        return;
    }
    for (const instr_job *job = side->jobs; job < side->jobs + side->count && !bs_exec_failed(s); job++)
        if (job->rows > 0) /* most tasks of a small network: this thread needs no context of its own */
            bs_exec_rows(&s->root, job->instr, 0, job->rows, job->bands > 0 ? 0 : -1);
}

void bs_exec_alone(bs_session *s, const bs_instr *i)
{
    const int32_t rows = s->root.domains[i->domain].count, bands = bs_step_of(s, i)->bands;
    side_job side;
    if (BS_DENSE_PAYS && rows <= 1 && bands <= 1) { /* most of a small network */
        if (rows == 1)
            bs_exec_rows(&s->root, i, 0, 1, bands - 1);
        return;
    }
    begin_jobs(&side, s);
    add_job(&side, i, rows);
    run_jobs(&side);
}

#ifdef BS_SMALL /* for few bytes each runs alone */
int32_t bs_exec_beside(bs_session *s, int32_t first) { return (void)s, first; }
#else

int32_t bs_exec_beside(bs_session *s, int32_t first)
{
    const int32_t end = bs_plan_side_by_side(s->plan, first);
    side_job side;
    int32_t k = first;
    begin_jobs(&side, s);
    for (; k < end && bs_exec_runs_beside(s, &s->plan->instrs[k]); k++) {
        const bs_instr *i = &s->plan->instrs[k];
        const bs_node *node = &s->graph->nodes[i->node];
        const int32_t rows = s->root.domains[i->domain].count;
        if (rows == 0 || bs_exec_kept(s, i))
            continue;
        if (side.count == SIDE_JOBS || tasks_of(&side) > SIDE_TASKS) {
            run_jobs(&side);
            begin_jobs(&side, s);
        }
        add_job(&side, i, rows);
        if (i->kind == BS_INSTR_CALL && bs_node_op(node)->flops)
            side.work += rows * bs_node_op(node)->flops(s->graph, node);
    }
    run_jobs(&side);
    return k - 1;
}
#endif
