/* plan.cpp - plans: what is asked for in words becomes a bs_plan_desc.
 *
 * Relies on objects.hpp. Must never take a word that it does not know for a default. */
#include "objects.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace brainstorm {

struct word {
    const char *text;
    int32_t number;
};

static const std::vector<word> orders = {
    {"auto", BS_ORDER_AUTO}, {"breadth", BS_ORDER_BREADTH}, {"depth", BS_ORDER_DEPTH}};
static const std::vector<word> convs = {{"auto", BS_CONV_AUTO},
                                        {"direct", BS_CONV_FORCE_DIRECT},
                                        {"winograd", BS_CONV_FORCE_WINOGRAD},
                                        {"reference", BS_CONV_FORCE_REFERENCE}};

static int32_t number_of(const char *what, const std::vector<word> &words, const std::string &text)
{
    std::string known;
    for (const word &w : words) {
        if (text == w.text)
            return w.number;
        known += (known.empty() ? "" : ", ") + std::string(w.text);
    }
    throw failure(BS_ERROR_ARGUMENT, std::string(what) + " is \"" + text + "\", expected one of: " + known);
}

static int32_t tier_of(const std::string &text)
{
    std::vector<word> tiers;
    for (int32_t t = BS_TIER_AUTO; t <= BS_TIER_CUDA; t++)
        tiers.push_back({bs_tier_name(static_cast<bs_tier>(t)), t});
    return text == "auto" ? BS_TIER_AUTO : number_of("tier", tiers, text);
}

plan::plan(std::shared_ptr<graph> of_graph, const bs_plan_desc &desc) : of(std::move(of_graph))
{
    bs_error error{};
    nb::gil_scoped_release unlocked;
    const size_t bytes = bs_plan_bytes(of->built, &desc);
    throw_unless(bytes > 0, error);
    room = std::make_unique<memory>("plan", bytes);
    made = bs_plan_create(&room->arena, NULL, of->built, &desc, &error);
    throw_unless(made, error);
    bs_plan_sizes(made, &sizes);
}

static void plan_init(plan *p, std::shared_ptr<graph> of, int32_t threads, const std::string &tier,
                      const std::string &order, const std::string &conv, int32_t patch_size,
                      const std::vector<std::tuple<std::string, int32_t>> &forces, uint64_t slot_bytes, int32_t lanes,
                      int32_t chunk_bytes, bool dataflow, bool fusion)
{
    bs_plan_desc desc{};
    desc.threads = threads;
    desc.tier = tier_of(tier);
    desc.order = number_of("order", orders, order);
    desc.conv = number_of("conv", convs, conv);
    desc.patch_size = patch_size;
    if (forces.size() > BS_MAX_FORCES)
        throw failure(BS_ERROR_LIMIT, "routers are forced: " + std::to_string(forces.size()) + ", expected at most " +
                                          std::to_string(BS_MAX_FORCES));
    for (const auto &[router, path] : forces) {
        desc.forces[desc.n_forces].router = router.c_str();
        desc.forces[desc.n_forces++].path = path;
    }
    desc.slot_bytes = slot_bytes;
    desc.lanes = lanes;
    desc.chunk_bytes = chunk_bytes;
    desc.no_dataflow = !dataflow;
    desc.no_fusion = !fusion;
    new (p) plan(std::move(of), desc);
}

static std::map<std::string, uint64_t> bytes_of(const plan &p)
{
    const bs_sizes &s = p.sizes;
    return {{"persistent", s.persistent}, {"transient", s.transient},    {"staging", s.staging},
            {"slots", s.slots},           {"device", s.device},          {"pinned", s.pinned},
            {"weights", s.weights},       {"graph", p.of->room->bytes},  {"plan", p.room->bytes},
            {"index", p.of->of->index->bytes}};
}

static bs_stream_plan stream_of(const plan &p)
{
    bs_stream_plan stream{};
    bs_plan_stream_get(p.made, &stream);
    return stream;
}

void define_plans(nb::module_ &m)
{
    nb::class_<bs_stream_plan>(m, "StreamPlan", "What a plan streams: bytes of slots, and what bounds them.")
        .def_ro("units", &bs_stream_plan::units)
        .def_ro("phases", &bs_stream_plan::phases)
        .def_ro("slot_bytes", &bs_stream_plan::slot_bytes)
        .def_ro("least_bytes", &bs_stream_plan::least_bytes)
        .def_ro("all_bytes", &bs_stream_plan::all_bytes);
    nb::class_<plan>(m, "Plan", "A fixed sequence of instructions for a graph, and the bytes that it needs.")
        .def("__init__", &plan_init, nb::arg("graph"), nb::arg("threads") = 0, nb::arg("tier") = "auto",
             nb::arg("order") = "auto", nb::arg("conv") = "auto", nb::arg("patch_size") = 0,
             nb::arg("forces") = std::vector<std::tuple<std::string, int32_t>>(), nb::arg("slot_bytes") = 0,
             nb::arg("lanes") = 0, nb::arg("chunk_bytes") = 0, nb::arg("dataflow") = true, nb::arg("fusion") = true)
        .def_prop_ro("bytes", &bytes_of)
        .def_prop_ro("stream", &stream_of)
        .def("report", [](const plan &p) {
            return text_of([&](char *text, size_t n) { return bs_plan_report(p.made, text, n); });
        });
}

} // namespace brainstorm
