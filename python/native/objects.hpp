/* objects.hpp - what the module's objects are: memory, a model, its graph, a plan, a session; each keeps what it relies
 * on alive.
 *
 * Relies on brainstorm.h and nanobind. The library's rules hold here as well: nothing moves once the library knows its
 * address, and a thing is closed before what it relies on goes. Must never let the library be called by two threads
 * where it does not allow that, nor touch a Python object without the GIL. */
#pragma once

#include "brainstorm.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

namespace brainstorm {

namespace nb = nanobind;

/* A bs_error on its way to Python, where it becomes brainstorm.Error. */
struct failure : std::exception {
    bs_error error;
    explicit failure(const bs_error &e) : error(e) {}
    failure(bs_status status, const std::string &message);
    const char *what() const noexcept override { return error.message; }
};

/* An arena and its memory, aligned. Pages that are never touched cost nothing. */
class memory {
  public:
    memory(const char *name, uint64_t bytes);
    memory(const memory &) = delete;
    memory &operator=(const memory &) = delete;
    ~memory() { std::free(data); }
    bs_arena arena;
    uint64_t bytes;

  private:
    void *data = nullptr;
};

/* An open model file, or one in memory. */
struct model {
    std::unique_ptr<memory> index;
    nb::object holder; /* the bytes that it was opened from, or none */
    bs_model *opened = nullptr;
    std::mutex reading; /* builds and reads weights: one thread at a time. Taken without the GIL */
    model() = default;
    model(const model &) = delete;
    ~model() { bs_model_close(opened); }
    static std::shared_ptr<model> open_file(nb::bytes path);
    static std::shared_ptr<model> open_memory(nb::bytes bytes);
};

/* A further output of a graph: a value, by its number. */
struct peek {
    std::string name;
    int32_t value;
    bool add; /* where routers may give a cell several paths: the sum of what they give */
};

/* A node, as bs_graph_node_get tells of it; text is copied. */
struct node {
    int32_t number;
    std::string op, name, line;
    bs_node_facts facts;
};

struct extents {
    std::string name;
    std::vector<int64_t> dims;
};

/* The graph of a model, with the maxima of some inputs. Never changes once it is made. */
struct graph {
    std::shared_ptr<model> of;
    std::unique_ptr<memory> room;
    bs_graph *built = nullptr;
    /* whole: the same graph without peeks, or NULL where there are none. */
    graph(std::shared_ptr<model> of, const std::vector<extents> &inputs, const std::vector<peek> &peeks,
          const graph *whole, int32_t code_bits, int32_t floor);
    graph(const graph &) = delete;
};

struct plan {
    std::shared_ptr<graph> of;
    std::unique_ptr<memory> room;
    bs_plan *made = nullptr;
    bs_sizes sizes{};
    plan(std::shared_ptr<graph> of, const bs_plan_desc &desc);
    plan(const plan &) = delete;
};

/* Where a session's profile goes. `write` is called on a thread that knows nothing of Python. */
struct profile {
    std::FILE *file = nullptr;
    std::unique_ptr<memory> room, ring;
    bs_profile *begun = nullptr;
    profile(const std::string &path, uint64_t events, bool ops);
    profile(const profile &) = delete;
    ~profile();
    uint64_t close(); /* events lost */
};

struct session;
struct route {
    session *of;
    std::string name;
};

struct session {
    std::shared_ptr<plan> of;
    std::shared_ptr<session> weights_of; /* whose weights this one reads */
    std::unique_ptr<memory> persistent, transient, staging, slots;
    std::unique_ptr<profile> recording;
    bs_session *opened = nullptr;
    std::atomic<bool> busy{false};
    std::map<std::string, Py_buffer> bound; /* the exporters are held, and cannot move what they export */
    std::map<std::string, route> routes;    /* routers with a callback; entries never move */
    nb::dict functions;                     /* of the run that is going on: router's name -> what decides */
    std::exception_ptr raised;              /* by one of them */
    int sharing = 0;                        /* sessions that read this one's weights */
    bool overlap_checked = false;           /* of what is bound now */

    session(std::shared_ptr<plan> of, const bs_session_desc &desc, std::shared_ptr<session> weights_of,
            std::unique_ptr<profile> recording);
    session(const session &) = delete;
    ~session();
    uint64_t close();
    void bind(const std::string &name, nb::handle array);
    void run(nb::dict functions);
    void set_route(const std::string &router);
};

/* A session while it is used: refuses a second thread, and one that is closed. */
class entered {
  public:
    explicit entered(session &s);
    ~entered() { used.busy = false; }
    bs_session *operator()() const { return used.opened; }

  private:
    session &used;
};

template <typename Report> std::string text_of(Report report)
{
    std::string text(report(nullptr, 0), '\0');
    if (!text.empty())
        report(text.data(), text.size() + 1); /* the NUL takes the place of the string's own */
    return text;
}

void throw_unless(bool ok, const bs_error &error);

void define_models(nb::module_ &m);
void define_plans(nb::module_ &m);
void define_sessions(nb::module_ &m);

} // namespace brainstorm
