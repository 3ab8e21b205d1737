/* session.cpp - sessions: what is bound, running, and what a run tells.
 *
 * Relies on objects.hpp. Must never run while another thread does, nor release an array that the library may still
 * write to; bs_run never has the GIL, and callbacks take it back. */
#include "objects.hpp"

#include <algorithm>
#include <cstring>

#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace brainstorm {

/* ------------------------------------------------------------------------------------------------ profiles */

static int write_profile(void *user, const void *data, size_t bytes)
{
    return std::fwrite(data, 1, bytes, static_cast<std::FILE *>(user)) == bytes ? 0 : -1;
}

profile::profile(const std::string &path, uint64_t events, bool ops)
{
    bs_error error{};
    if (events < 16 || events > (1u << 28))
        throw failure(BS_ERROR_ARGUMENT, "profile_events is " + std::to_string(events) + ", expected 16 .. 2^28");
    room = std::make_unique<memory>("profile", 4096);
    ring = std::make_unique<memory>("ring", 4160 + 48 * events);
    file = std::fopen(path.c_str(), "wb");
    if (!file)
        throw failure(BS_ERROR_IO, "profile \"" + path + "\": " + std::strerror(errno));
    bs_profile_desc desc{};
    desc.write = write_profile;
    desc.user = file;
    desc.memory = ring->arena.base;
    desc.bytes = static_cast<size_t>(ring->bytes);
    desc.ops = ops;
    begun = bs_profile_create(&room->arena, &desc, &error);
    if (!begun) {
        std::fclose(file);
        throw failure(error);
    }
}

uint64_t profile::close()
{
    uint64_t lost = 0;
    if (!begun)
        return 0;
    const bs_status status = bs_profile_close(begun, &lost);
    begun = nullptr;
    const bool written = std::fclose(file) == 0;
    if (status != BS_OK || !written)
        throw failure(BS_ERROR_IO, "the profile could not be written");
    return lost;
}

profile::~profile()
{
    try {
        close();
    } catch (const failure &) { /* who wants to know calls Session.close() */
    }
}

/* ------------------------------------------------------------------------------------------ beginning, ending */

entered::entered(session &s) : used(s)
{
    if (s.busy.exchange(true))
        throw failure(BS_ERROR_ARGUMENT, "the session is in use: by another thread, or by the run that asks");
    if (!s.opened) {
        s.busy = false;
        throw failure(BS_ERROR_ARGUMENT, "the session is closed");
    }
}

session::session(std::shared_ptr<plan> of_plan, const bs_session_desc &desc, std::shared_ptr<session> shared,
                 std::unique_ptr<profile> begun)
    : of(std::move(of_plan)), weights_of(std::move(shared)), recording(std::move(begun))
{
    bs_error error{};
    const bs_sizes &sizes = of->sizes;
    persistent = std::make_unique<memory>("persistent", sizes.persistent - (weights_of ? sizes.weights : 0));
    transient = std::make_unique<memory>("transient", sizes.transient);
    staging = std::make_unique<memory>("staging", sizes.staging);
    slots = std::make_unique<memory>("slots", sizes.slots);
    bs_memory memory = {persistent->arena, transient->arena, staging->arena, slots->arena};
    bs_session_desc with = desc;
    model &source = *of->of->of;
    with.weights = bs_model_weights(source.opened);
    with.weights_of = weights_of ? weights_of->opened : nullptr;
    with.profile = recording ? recording->begun : nullptr;
    {
        nb::gil_scoped_release unlocked;
        const std::lock_guard<std::mutex> alone(source.reading);
        opened = bs_session_create(&memory, of->made, &with, &error);
    }
    throw_unless(opened, error);
    if (weights_of)
        weights_of->sharing++;
    if (!sizes.slots && !sizes.staging)
        return;
    if (bs_stream_plan stream{}; bs_plan_stream_get(of->made, &stream), stream.slot_bytes == 0)
        staging.reset(); /* it was for loading */
}

uint64_t session::close()
{
    if (!opened)
        return 0;
    if (sharing)
        throw failure(BS_ERROR_ARGUMENT, "sessions that read this one's weights are open: " + std::to_string(sharing));
    {
        nb::gil_scoped_release unlocked;
        bs_session_close(opened);
    }
    opened = nullptr;
    if (weights_of)
        weights_of->sharing--;
    weights_of.reset();
    for (auto &[name, buffer] : bound)
        PyBuffer_Release(&buffer);
    bound.clear();
    persistent.reset();
    transient.reset();
    staging.reset();
    slots.reset();
    nb::gil_scoped_release unlocked;
    return recording ? recording->close() : 0;
}

session::~session()
{
    try {
        close();
    } catch (const failure &) {
    }
}

static uint64_t close_session(session &s)
{
    if (s.busy.exchange(true))
        throw failure(BS_ERROR_ARGUMENT, "the session is in use: by another thread, or by the run that asks");
    struct leave {
        session &of;
        ~leave() { of.busy = false; }
    } left{s};
    return s.close();
}

/* ------------------------------------------------------------------------------------------------- binding */

/* A buffer of Python's, until it is released or handed on. */
struct exported {
    Py_buffer view{};
    bool held = false;
    exported(nb::handle array, bool written)
    {
        const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (written ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(array.ptr(), &view, flags) != 0)
            throw nb::python_error();
        held = true;
    }
    exported(const exported &) = delete;
    ~exported()
    {
        if (held)
            PyBuffer_Release(&view);
    }
};

static bs_dtype dtype_of(const Py_buffer &view, bs_dtype expected)
{
    const char *format = view.format ? view.format : "B";
    if (strchr("@=<", *format) && *format)
        format++;
    const auto is = [&](const char *letters, Py_ssize_t bytes) {
        return *format && !format[1] && strchr(letters, *format) && view.itemsize == bytes;
    };
    if (is("f", 4))
        return BS_F32;
    if (is("B", 1))
        return BS_U8;
    if (is("b", 1))
        return BS_I8;
    if (is("il", 4))
        return BS_I32;
    if (is("e", 2))
        return BS_F16;
    if (is("H", 2)) /* NumPy has no bf16: its bits */
        return expected == BS_BF16 ? BS_BF16 : BS_U16;
    throw failure(BS_ERROR_ARGUMENT, std::string("elements of format \"") + format + "\" are none of the library's");
}

static bs_buffer buffer_of(const Py_buffer &view, bs_dtype expected)
{
    static uint64_t nothing;
    bs_buffer b{};
    b.data = view.buf ? view.buf : &nothing; /* of no elements: the library says so */
    b.dtype = dtype_of(view, expected);
    b.rank = view.ndim;
    if (view.ndim > BS_MAX_RANK)
        throw failure(BS_ERROR_SHAPE, "an array of rank " + std::to_string(view.ndim) + ", expected at most " +
                                          std::to_string(BS_MAX_RANK));
    bool moves = false, many = false;
    for (int i = 0; i < view.ndim; i++) {
        b.dim[i] = view.shape[i];
        b.stride[i] = view.strides[i] / view.itemsize;
        many = many || b.dim[i] > 1;
        moves = moves || b.stride[i] != 0;
        if (b.dim[i] > 1 && view.strides[i] % view.itemsize != 0)
            throw failure(BS_ERROR_ARGUMENT, "its strides are no multiples of an element");
    }
    if (many && !moves) /* to the library: dense */
        throw failure(BS_ERROR_ARGUMENT, "its elements are all one, which strides cannot say here");
    if (reinterpret_cast<uintptr_t>(b.data) % static_cast<uintptr_t>(view.itemsize) != 0)
        throw failure(BS_ERROR_ARGUMENT, "its elements are not aligned");
    return b;
}

void session::bind(const std::string &name, nb::handle array)
{
    bs_error error{};
    bs_port_facts port{};
    const entered use(*this);
    if (name.find('\0') != std::string::npos)
        throw failure(BS_ERROR_ARGUMENT, "a name with a NUL in it");
    const bool known = bs_graph_port_get(of->of->built, name.c_str(), &port) == BS_OK;
    exported from(array, !known || port.output);
    const bs_buffer buffer = buffer_of(from.view, port.dtype);
    const auto at = bound.try_emplace(name).first; /* room first: nothing fails once the library has the address */
    const bool fits = bs_bind(use(), name.c_str(), &buffer, &error) == BS_OK;
    if (fits) {
        std::swap(at->second, from.view);
        from.held = from.view.obj != nullptr;
        overlap_checked = false;
    } else if (!at->second.obj) {
        bound.erase(at);
    }
    throw_unless(fits, error);
}

struct span {
    const char *first, *end;
    bool written;
    const std::string *name;
};

static span span_of(const std::string &name, const Py_buffer &view, bool written)
{
    Py_ssize_t low = 0, high = view.itemsize;
    for (int i = 0; i < view.ndim; i++) {
        const Py_ssize_t reach = view.strides[i] * (view.shape[i] - 1);
        (reach < 0 ? low : high) += reach;
    }
    const char *data = static_cast<const char *>(view.buf);
    return {data + low, data + high, written, &name};
}

/* What is written lies apart from all else that is bound. */
static void check_overlap(const session &s)
{
    std::vector<span> spans;
    for (const auto &[name, view] : s.bound) {
        bs_port_facts port{};
        const bool known = bs_graph_port_get(s.of->of->built, name.c_str(), &port) == BS_OK;
        spans.push_back(span_of(name, view, !known || port.output));
    }
    std::sort(spans.begin(), spans.end(), [](const span &a, const span &b) { return a.first < b.first; });
    const span *farthest = nullptr, *written = nullptr; /* ends of all, and of those that are written */
    for (const span &next : spans) {
        const span *before = next.written ? farthest : written;
        if (before && next.first < before->end)
            throw failure(BS_ERROR_ARGUMENT, "the arrays of \"" + *before->name + "\" and \"" + *next.name +
                                                 "\" overlap, and one of them is written");
        if (!farthest || next.end > farthest->end)
            farthest = &next;
        if (next.written && (!written || next.end > written->end))
            written = &next;
    }
}

/* ------------------------------------------------------------------------------------------------- running */

static bs_status ask(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path_of_row)
{
    const route &r = *static_cast<route *>(user);
    nb::gil_scoped_acquire locked;
    try {
        const size_t each = bs_dtype_bytes(scores->dtype);
        const auto width = static_cast<size_t>(scores->width);
        std::string dense(static_cast<size_t>(rows) * width * each, '\0');
        for (int32_t i = 0; i < rows; i++)
            for (size_t p = 0; p < width; p++)
                std::memcpy(&dense[(static_cast<size_t>(i) * width + p) * each],
                            static_cast<const char *>(scores->data) +
                                (i * scores->row_stride + static_cast<ptrdiff_t>(p) * scores->stride) *
                                    static_cast<ptrdiff_t>(each),
                            each);
        nb::object chosen = r.of->functions[r.name.c_str()](nb::bytes(dense.data(), dense.size()),
                                                            bs_dtype_name(scores->dtype), rows, scores->width);
        const auto bytes = nb::cast<nb::bytes>(chosen);
        if (bytes.size() != static_cast<size_t>(rows) * sizeof *path_of_row)
            throw failure(BS_ERROR_DATA, "router \"" + r.name + "\": its function gave other than a path for each row");
        std::memcpy(path_of_row, bytes.c_str(), bytes.size());
        return BS_OK;
    } catch (...) {
        r.of->raised = std::current_exception();
        return BS_ERROR_DATA;
    }
}

void session::set_route(const std::string &router)
{
    bs_error error{};
    const entered use(*this);
    route &r = routes[router];
    r = {this, router};
    throw_unless(bs_set_route(use(), router.c_str(), ask, &r, &error) == BS_OK, error);
}

void session::run(nb::dict deciding)
{
    bs_error error{};
    bs_status status;
    const entered use(*this);
    if (!overlap_checked)
        check_overlap(*this);
    overlap_checked = true;
    functions = deciding;
    raised = nullptr;
    {
        nb::gil_scoped_release unlocked;
        status = bs_run(use(), &error);
    }
    functions = nb::dict();
    if (raised)
        std::rethrow_exception(std::exchange(raised, nullptr));
    throw_unless(status == BS_OK, error);
}

/* -------------------------------------------------------------------------------------------- what it tells */

static std::vector<int64_t> needed_extents(session &s, const std::string &name)
{
    bs_error error{};
    int64_t dims[BS_MAX_RANK];
    const entered use(s);
    throw_unless(bs_bound_extents(use(), name.c_str(), dims, &error) == BS_OK, error);
    return {dims, dims + BS_MAX_RANK};
}

static std::vector<int64_t> made_extents(session &s, const std::string &name)
{
    bs_error error{};
    int64_t dims[BS_MAX_RANK];
    const entered use(s);
    error.status = bs_output_extents(use(), name.c_str(), dims);
    throw_unless(error.status == BS_OK, error);
    return {dims, dims + BS_MAX_RANK};
}

/* counts, ns, chosen as the bytes of i32, u64, i16; cells; dropped */
static nb::tuple decision_of(session &s, const std::string &router)
{
    bs_decision d{};
    const entered use(s);
    if (bs_decision_get(use(), router.c_str(), &d) != BS_OK)
        throw failure(BS_ERROR_ARGUMENT, "there is no decision of a router \"" + router + "\" in this plan");
    const auto bytes = [](const auto *data, int32_t n) {
        return nb::bytes(data ? static_cast<const void *>(data) : "",
                         data ? static_cast<size_t>(n) * sizeof *data : 0);
    };
    return nb::make_tuple(bytes(d.counts, d.paths), bytes(d.ns, d.paths), bytes(d.chosen, d.cells), d.cells, d.dropped);
}

static bs_run_stats stats_of(session &s)
{
    bs_run_stats stats;
    const entered use(s);
    bs_session_stats(use(), &stats);
    return stats;
}

static bs_stream_stats stream_stats_of(session &s)
{
    bs_stream_stats stats;
    const entered use(s);
    bs_session_stream_stats(use(), &stats);
    return stats;
}

static std::string report_of(session &s)
{
    const entered use(s);
    return text_of([&](char *text, size_t n) { return bs_session_report(use(), text, n); });
}

static int32_t policy_of(const std::string &text)
{
    for (int32_t p = 0; p < BS_POLICY_COUNT; p++)
        if (text == bs_policy_name(static_cast<bs_policy>(p)))
            return p;
    throw failure(BS_ERROR_ARGUMENT, "policy is \"" + text + "\", expected reuse, lru or lfu");
}

static std::shared_ptr<session> open_session(std::shared_ptr<plan> of, const std::string &policy, bool guess,
                                             bool check, nb::bytes path, uint64_t events, bool ops,
                                             std::shared_ptr<session> shared)
{
    bs_session_desc desc{};
    desc.stream.policy = policy_of(policy);
    desc.stream.speculation = guess ? BS_SPECULATE_AUTO : BS_SPECULATE_OFF;
    desc.stream.check_records = check;
    std::unique_ptr<profile> recording;
    std::unique_ptr<entered> alone; /* the other one neither runs nor closes meanwhile */
    if (shared)
        alone = std::make_unique<entered>(*shared);
    if (shared && shared->of != of)
        throw failure(BS_ERROR_ARGUMENT, "weights_of: a session of another plan");
    if (path.size() > 0)
        recording = std::make_unique<profile>(path.c_str(), events, ops);
    return std::make_shared<session>(std::move(of), desc, std::move(shared), std::move(recording));
}

/* ------------------------------------------------------------------------------------------------ classes */

static void define_stats(nb::module_ &m)
{
    nb::class_<bs_run_stats>(m, "Stats", "Runs so far, and the nanoseconds of the last one.")
        .def_ro("runs", &bs_run_stats::runs)
        .def_ro("total_ns", &bs_run_stats::total_ns)
        .def_ro("routing_ns", &bs_run_stats::routing_ns);
    nb::class_<bs_stream_stats>(m, "StreamStats", "Counted since the session began: bs_stream_stats.")
        .def_ro("hits", &bs_stream_stats::hits)
        .def_ro("late", &bs_stream_stats::late)
        .def_ro("misses", &bs_stream_stats::misses)
        .def_ro("loads", &bs_stream_stats::loads)
        .def_ro("guessed_loads", &bs_stream_stats::guessed_loads)
        .def_ro("useful_guesses", &bs_stream_stats::useful_guesses)
        .def_ro("dropped", &bs_stream_stats::dropped)
        .def_ro("bytes_read", &bs_stream_stats::bytes_read)
        .def_ro("bytes_wasted", &bs_stream_stats::bytes_wasted)
        .def_ro("evictions", &bs_stream_stats::evictions)
        .def_ro("stall_ns", &bs_stream_stats::stall_ns)
        .def_ro("read_ns", &bs_stream_stats::read_ns)
        .def_ro("prepare_ns", &bs_stream_stats::prepare_ns)
        .def_ro("delayed_ns", &bs_stream_stats::delayed_ns)
        .def_ro("resident_peak_bytes", &bs_stream_stats::resident_peak_bytes)
        .def_ro("paused", &bs_stream_stats::paused)
        .def_ro("guessing", &bs_stream_stats::guessing)
        .def_ro("direct", &bs_stream_stats::direct);
}

void define_sessions(nb::module_ &m)
{
    define_stats(m);
    nb::class_<session>(m, "Session", "Everything mutable of one running network.")
        .def(nb::new_(&open_session), nb::arg("plan"), nb::arg("policy") = "reuse", nb::arg("guess") = true,
             nb::arg("check") = false, nb::arg("profile") = nb::bytes("", 0), nb::arg("events") = 65536,
             nb::arg("ops") = false,
             nb::arg("weights_of").none() = nb::none())
        .def("close", &close_session, "Ends its threads and gives its memory back. Events that the profile lost.")
        .def("bind", &session::bind, nb::arg("name"), nb::arg("array"))
        .def("run", &session::run, nb::arg("routes"))
        .def("set_route", &session::set_route, nb::arg("router"))
        .def("needed_extents", &needed_extents, nb::arg("name"))
        .def("made_extents", &made_extents, nb::arg("name"))
        .def("decision", &decision_of, nb::arg("router"))
        .def_prop_ro("stats", &stats_of)
        .def_prop_ro("stream_stats", &stream_stats_of)
        .def("report", &report_of)
        .def("reset",
             [](session &s) {
                 const entered use(s);
                 bs_reset_state(use());
             })
        .def_prop_ro("state_valid", [](session &s) {
            const entered use(s);
            return bs_state_valid(use());
        });
}

} // namespace brainstorm
