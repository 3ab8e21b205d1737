/* graph.cpp - graphs: nodes and what they need, conditional nodes, executables, replay. Nodes run one after another on
 * the stream's thread, in an order that respects what they need and nothing else (control.h: orders). For the thread
 * sanitizer each chain of nodes is someone of its own, so that a missing edge is a race. Relies on capture.cpp to fill
 * graphs. Must never let a node know what a node that it does not need has done. */
#include "engine.h"

#include <sched.h>
#include <stddef.h>

using namespace cuda_cpu;

/* A conditional handle. Its number is its address. */
struct Condition {
    std::atomic<int> references{1};
    std::atomic<unsigned> value{0};
    unsigned value_at_launch = 0;
    bool assigned_at_launch = false;
};

struct CUgraphNode_st {
    CUgraph_st *graph;
    Work *work;
    size_t number;
    Nodes needs;
    Condition *condition;
    int type; /* of a conditional node */
    std::vector<cudaGraph_t> bodies;
};

struct CUgraph_st {
    Nodes nodes;
    std::vector<Condition *> conditions;
    bool body = false;
};

/* A graph made ready: the nodes as they were, and who runs them. */
struct Plan {
    struct Step {
        Work *work;
        std::vector<size_t> needs;
        Condition *condition;
        int type;
        std::vector<Plan *> bodies;
        size_t chain;
        Tag done;
    };
    struct Chain {
        void *identity = nullptr;
        Worker worker;
    };
    std::vector<Step> steps;
    std::vector<Chain> chains; /* for the thread sanitizer only */
    Tag begun = 0;

    ~Plan();
    void reset_conditions();
    void run(Worker &worker);
    void run_step(Step &step, Worker &worker);
    void run_conditional(Step &step, Worker &worker);
    void run_as_chain(Step &step);
};

struct CUgraphExec_st {
    std::atomic<int> references{1};
    std::atomic<int> running{0};
    Plan plan;
};

namespace cuda_cpu {

/* ---- graphs ---- */

CUgraph_st *graph_make()
{
    CUgraph_st *graph = new CUgraph_st();
    alive_add(graph, GRAPH);
    return graph;
}

static void condition_drop(Condition *condition)
{
    if (condition && condition->references.fetch_sub(1) == 1)
        delete condition;
}

void graph_destroy(CUgraph_st *graph)
{
    alive_remove(graph, GRAPH);
    if (graph->body)
        count(LIVE_GRAPHS); /* which did not count it */
    for (CUgraphNode_st *node : graph->nodes) {
        if (node->work)
            node->work->drop();
        for (cudaGraph_t body : node->bodies)
            graph_destroy(body);
        delete node;
    }
    for (Condition *condition : graph->conditions)
        condition_drop(condition);
    delete graph;
}

CUgraphNode_st *graph_add(CUgraph_st *graph, const Nodes &needs, Work *work)
{
    CUgraphNode_st *node = new CUgraphNode_st{graph, work, graph->nodes.size(), needs, nullptr, 0, {}};
    graph->nodes.push_back(node);
    return node;
}

static bool reaches_one(const Nodes &from, CUgraphNode_st *node)
{
    std::vector<CUgraphNode_st *> look = from;
    std::vector<char> seen(node->graph->nodes.size(), 0);
    while (!look.empty()) {
        CUgraphNode_st *at = look.back();
        look.pop_back();
        if (at == node)
            return true;
        if (at->number <= node->number || seen[at->number]) /* nodes need earlier ones only */
            continue;
        seen[at->number] = 1;
        look.insert(look.end(), at->needs.begin(), at->needs.end());
    }
    return false;
}

bool graph_reaches(const Nodes &from, const Nodes &nodes)
{
    for (CUgraphNode_st *node : nodes)
        if (!reaches_one(from, node))
            return false;
    return true;
}

/* ---- making ready ---- */

static bool plan_make(Plan *plan, const CUgraph_st *graph)
{
    std::vector<char> continued(graph->nodes.size(), 0);
    size_t chains = 0;
    for (CUgraphNode_st *node : graph->nodes) {
        if (node->work && graph->body && node->work->is_host_function()) {
            trouble("a host function in the body of a conditional node");
            return false;
        }
        Plan::Step step = {node->work, {}, node->condition, node->type, {}, 0, 0};
        bool own_chain = true;
        for (CUgraphNode_st *need : node->needs) {
            step.needs.push_back(need->number);
            if (own_chain && !continued[need->number]) { /* goes on where the first need left off */
                continued[need->number] = 1;
                step.chain = plan->steps[need->number].chain;
                own_chain = false;
            }
        }
        if (own_chain)
            step.chain = chains++;
        if (step.work)
            step.work->hold();
        if (step.condition)
            step.condition->references.fetch_add(1);
        plan->steps.push_back(std::move(step));
        for (cudaGraph_t body : node->bodies) {
            plan->steps.back().bodies.push_back(new Plan());
            if (!plan_make(plan->steps.back().bodies.back(), body))
                return false;
        }
    }
    if (thread_sanitizer) {
        plan->chains = std::vector<Plan::Chain>(chains);
        for (Plan::Chain &chain : plan->chains)
            chain.identity = identity_make();
    }
    return true;
}

static void executable_drop(CUgraphExec_st *executable)
{
    if (executable->references.fetch_sub(1) == 1)
        delete executable;
}

static void graph_destroy_as_janitor(void *graph) { graph_destroy(static_cast<CUgraph_st *>(graph)); }

static void executable_drop_as_janitor(void *executable)
{
    executable_drop(static_cast<CUgraphExec_st *>(executable));
}

/* Also a node of another graph, when the stream is captured. */
class GraphLaunch : public Work {
public:
    explicit GraphLaunch(CUgraphExec_st *which) : executable(which) { executable->references.fetch_add(1); }
    ~GraphLaunch() override { executable_drop(executable); }
    void run(Worker &worker) override
    {
        executable->plan.reset_conditions();
        executable->plan.run(worker);
        executable->running.fetch_sub(1);
    }

private:
    CUgraphExec_st *executable;
};

} // namespace cuda_cpu

Plan::~Plan()
{
    for (Step &step : steps) {
        if (step.work)
            step.work->drop();
        condition_drop(step.condition);
        for (Plan *body : step.bodies)
            delete body;
    }
    for (Chain &chain : chains)
        identity_destroy(chain.identity);
}

/* ---- replay ---- */

/* A value that nobody has assigned is not zero here. */
void Plan::reset_conditions()
{
    for (Step &step : steps) {
        if (step.condition)
            step.condition->value.store(step.condition->assigned_at_launch ? step.condition->value_at_launch
                                                                           : 0xa5a5a5a5u);
        for (Plan *body : step.bodies)
            body->reset_conditions();
    }
}

void Plan::run_conditional(Step &step, Worker &worker)
{
    const unsigned value = step.condition->value.load();
    if (step.type == cudaGraphCondTypeIf) {
        if (value)
            step.bodies[0]->run(worker);
        else if (step.bodies.size() > 1)
            step.bodies[1]->run(worker);
    } else if (step.type == cudaGraphCondTypeWhile) {
        for (long rounds = 0; step.condition->value.load(); rounds++) {
            if (rounds > 1000000)
                die("the loop of a conditional node has gone round a million times");
            step.bodies[0]->run(worker);
        }
    } else if (value < step.bodies.size()) {
        step.bodies[value]->run(worker);
    }
}

void Plan::run_step(Step &step, Worker &worker)
{
    count(NODES);
    if (step.condition)
        run_conditional(step, worker);
    else if (step.work)
        step.work->run(worker);
}

void Plan::run_as_chain(Step &step)
{
    void *self = identity_now();
    Chain &chain = chains[step.chain];
    identity_take(chain.identity);
    order_acquire(&begun);
    for (size_t need : step.needs)
        order_acquire(&steps[need].done);
    run_step(step, chain.worker);
    order_release(&step.done);
    identity_take(self);
}

/* Of the steps that could run, the first, the last or any. */
void Plan::run(Worker &worker)
{
    uint64_t random;
    const Order order = order_now(&random);
    std::vector<size_t> missing(steps.size()), ready;
    std::vector<std::vector<size_t>> followers(steps.size());
    for (size_t i = 0; i < steps.size(); i++) {
        missing[i] = steps[i].needs.size();
        for (size_t need : steps[i].needs)
            followers[need].push_back(i);
    }
    for (size_t i = steps.size(); i-- > 0;)
        if (!missing[i])
            ready.push_back(i);
    order_release(&begun);
    while (!ready.empty()) {
        size_t choice = 0;
        for (size_t i = 1; i < ready.size(); i++)
            if (order == REVERSE ? ready[i] > ready[choice] : ready[i] < ready[choice])
                choice = i;
        if (order == RANDOM)
            choice = next_random(&random) % ready.size();
        const size_t number = ready[choice];
        ready[choice] = ready.back();
        ready.pop_back();
        if (thread_sanitizer)
            run_as_chain(steps[number]);
        else
            run_step(steps[number], worker);
        for (size_t follower : followers[number])
            if (--missing[follower] == 0)
                ready.push_back(follower);
    }
    for (Step &step : steps)
        order_acquire(&step.done);
}

/* ---- the API ---- */

static cudaError_t instantiate(cudaGraphExec_t *executable, cudaGraph_t graph)
{
    *executable = nullptr;
    CUDA_CPU_BEGIN();
    count(INSTANTIATIONS);
    if (!alive(graph, GRAPH))
        return fail(cudaErrorInvalidValue);
    CUgraphExec_st *made = new CUgraphExec_st();
    if (!plan_make(&made->plan, graph)) {
        delete made;
        return fail(cudaErrorNotSupported);
    }
    alive_add(made, EXECUTABLE);
    *executable = made;
    return cudaSuccess;
}

#if CUDART_VERSION >= 12030
static bool conditional_is_sound(const cudaConditionalNodeParams &wanted)
{
    const unsigned bodies = wanted.size;
    if (wanted.type == cudaGraphCondTypeIf)
        return bodies == 1 || (bodies == 2 && CUDART_VERSION >= 12080);
    if (wanted.type == cudaGraphCondTypeWhile)
        return bodies == 1;
    return bodies > 0 && CUDART_VERSION >= 12080;
}

static cudaError_t add_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *needs, size_t count_of,
                            cudaGraphNodeParams *wanted)
{
    CUDA_CPU_BEGIN();
    if (!alive(graph, GRAPH))
        return fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < count_of; i++)
        if (needs[i]->graph != graph)
            return fail(cudaErrorInvalidValue);
    if (wanted->type != cudaGraphNodeTypeEmpty && wanted->type != cudaGraphNodeTypeConditional)
        return fail(cudaErrorNotSupported);
    if (wanted->type == cudaGraphNodeTypeConditional && !conditional_is_sound(wanted->conditional))
        return fail(cudaErrorInvalidValue);
    CUgraphNode_st *made = graph_add(graph, Nodes(needs, needs + count_of), nullptr);
    if (wanted->type == cudaGraphNodeTypeConditional) {
        made->condition = reinterpret_cast<Condition *>(static_cast<uintptr_t>(wanted->conditional.handle));
        made->type = wanted->conditional.type;
        for (unsigned i = 0; i < wanted->conditional.size; i++) {
            made->bodies.push_back(graph_make());
            made->bodies.back()->body = true;
            count(LIVE_GRAPHS, -1); /* they belong to their node */
        }
        wanted->conditional.phGraph_out = made->bodies.data();
    }
    *node = made;
    return cudaSuccess;
}
#endif

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned)
{
    CUDA_CPU_BEGIN();
    *graph = graph_make();
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    if (!alive(graph, GRAPH) || graph->body) {
        trouble("cudaGraphDestroy of a graph that does not exist or belongs to a node");
        return fail(cudaErrorInvalidValue);
    }
    as_janitor(graph_destroy_as_janitor, graph); /* what is launched of it may still run */
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count_of)
{
    CUDA_CPU_BEGIN();
    if (!alive(graph, GRAPH))
        return fail(cudaErrorInvalidValue);
    for (size_t i = 0; nodes && i < *count_of; i++)
        nodes[i] = i < graph->nodes.size() ? graph->nodes[i] : nullptr;
    if (!nodes || *count_of > graph->nodes.size())
        *count_of = graph->nodes.size();
    return cudaSuccess;
}

#if CUDART_VERSION >= 12000
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long)
{
    return instantiate(executable, graph);
}
#else
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, cudaGraphNode_t *, char *, size_t)
{
    return instantiate(executable, graph);
}
#endif

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long)
{
    return instantiate(executable, graph);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t)
{
    CUDA_CPU_BEGIN();
    return fail(alive(executable, EXECUTABLE) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    CUDA_CPU_BEGIN();
    if (!alive(executable, EXECUTABLE)) {
        trouble("cudaGraphLaunch of a graph that does not exist");
        return fail(cudaErrorInvalidValue);
    }
    executable->running.fetch_add(1);
    count(GRAPH_LAUNCHES);
    return stream_enqueue(stream, new GraphLaunch(executable));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    if (!alive_remove(executable, EXECUTABLE)) {
        trouble("cudaGraphExecDestroy of a graph that does not exist");
        return fail(cudaErrorInvalidValue);
    }
    if (executable->running.load() > 0 && !all_fails())
        trouble("cudaGraphExecDestroy of a graph that is running");
    while (executable->running.load() > 0) /* a device frees it when it is done */
        sched_yield();
    as_janitor(executable_drop_as_janitor, executable);
    return cudaSuccess;
}

#if CUDART_VERSION >= 12030
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph, unsigned value,
                                             unsigned flags)
{
    CUDA_CPU_BEGIN();
    if (!alive(graph, GRAPH))
        return fail(cudaErrorInvalidValue);
    Condition *condition = new Condition();
    condition->value_at_launch = value;
    condition->assigned_at_launch = (flags & cudaGraphCondAssignDefault) != 0;
    graph->conditions.push_back(condition);
    *handle = static_cast<cudaGraphConditionalHandle>(reinterpret_cast<uintptr_t>(condition));
    return cudaSuccess;
}

/* What kernels call. */
void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value)
{
    reinterpret_cast<Condition *>(static_cast<uintptr_t>(handle))->value.store(value);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *needs,
                             const cudaGraphEdgeData *, size_t count_of, cudaGraphNodeParams *wanted)
{
    return add_node(node, graph, needs, count_of, wanted);
}
#else
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *needs, size_t count_of,
                             cudaGraphNodeParams *wanted)
{
    return add_node(node, graph, needs, count_of, wanted);
}

cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *needs,
                                const cudaGraphEdgeData *, size_t count_of, cudaGraphNodeParams *wanted)
{
    return add_node(node, graph, needs, count_of, wanted);
}
#endif
#endif

} // extern "C"
