/* model.cpp - model files, and graphs that are built from them.
 *
 * Relies on objects.hpp. Must never keep a graph whose building failed, nor open what may change: bytes are held. */
#include "objects.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace brainstorm {

/* ------------------------------------------------------------------------------------------------- models */

std::shared_ptr<model> model::open_file(const std::string &path)
{
    bs_error error{};
    auto m = std::make_shared<model>();
    const size_t bytes = bs_model_file_bytes(nullptr, path.c_str(), &error);
    throw_unless(bytes > 0, error);
    m->index = std::make_unique<memory>("index", bytes);
    m->opened = bs_model_open_file(&m->index->arena, nullptr, path.c_str(), &error);
    throw_unless(m->opened, error);
    return m;
}

std::shared_ptr<model> model::open_memory(nb::bytes data)
{
    bs_error error{};
    auto m = std::make_shared<model>();
    m->holder = data;
    const size_t bytes = bs_model_memory_bytes(data.c_str(), data.size(), &error);
    throw_unless(bytes > 0, error);
    m->index = std::make_unique<memory>("index", bytes);
    m->opened = bs_model_open_memory(&m->index->arena, data.c_str(), data.size(), &error);
    throw_unless(m->opened, error);
    return m;
}

static bs_model_facts facts_of(const model &m)
{
    bs_model_facts facts;
    bs_model_facts_get(m.opened, &facts);
    return facts;
}

static std::vector<bs_model_block_facts> blocks_of(const model &m)
{
    std::vector<bs_model_block_facts> blocks(static_cast<size_t>(facts_of(m).blocks));
    for (size_t i = 0; i < blocks.size(); i++)
        bs_model_block_get(m.opened, static_cast<int32_t>(i), &blocks[i]);
    return blocks;
}

/* Of every weight: name, number of its block, type, shape. */
static std::vector<std::tuple<std::string, int32_t, std::string, std::vector<int64_t>>> weights_of(const model &m)
{
    std::vector<std::tuple<std::string, int32_t, std::string, std::vector<int64_t>>> weights;
    for (int32_t i = 0; i < facts_of(m).weights; i++) {
        char name[BS_MAX_WEIGHT_NAME];
        int32_t block;
        bs_weight_info info;
        if (bs_model_weight_get(m.opened, i, name, &block, &info) == BS_OK)
            weights.emplace_back(name, block, bs_dtype_name(info.dtype),
                                 std::vector<int64_t>(info.dim, info.dim + info.rank));
    }
    return weights;
}

static void check_records(model &m)
{
    bs_error error{};
    nb::gil_scoped_release unlocked;
    const std::lock_guard<std::mutex> alone(m.reading);
    throw_unless(bs_model_check(m.opened, &error) == BS_OK, error);
}

/* "" or why not. */
static std::string no_streaming(const model &m)
{
    bs_error error{};
    return bs_model_can_stream(m.opened, &error) == BS_OK ? "" : error.message;
}

/* ------------------------------------------------------------------------------------------------- graphs */

static bs_model_input input_of(const extents &e)
{
    bs_model_input input{};
    input.name = e.name.c_str();
    input.rank = static_cast<int32_t>(e.dims.size());
    for (size_t i = 0; i < e.dims.size() && i < BS_MAX_RANK; i++)
        input.dim[i] = e.dims[i];
    return input;
}

static void add_peek(bs_graph *g, const peek &p)
{
    bs_value value = {p.value};
    if (p.way == "collect")
        value = bs_collect(g, value);
    else if (p.way == "assemble")
        value = bs_assemble(g, value);
    bs_output(g, p.name.c_str(), value);
}

/* What the file needs, and what looking into it adds: two nodes and a value each. */
static bs_graph_desc room_for(const model &m, const std::vector<peek> &peeks)
{
    bs_graph_desc desc = bs_model_graph_desc(m.opened);
    const auto more = static_cast<int32_t>(peeks.size());
    desc.max_nodes += 2 * more;
    desc.max_values += 2 * more;
    desc.max_operands += 2 * more;
    desc.max_dims += 8 * more;
    desc.max_text_bytes += 2 * BS_MAX_NAME * more;
    return desc;
}

graph::graph(std::shared_ptr<model> of_model, const std::vector<extents> &inputs, const std::vector<peek> &peeks,
             int32_t code_bits, int32_t floor)
    : of(std::move(of_model))
{
    bs_error error{};
    std::vector<bs_model_input> given;
    for (const extents &e : inputs)
        given.push_back(input_of(e));
    bs_model_build_desc with{};
    with.inputs = given.data();
    with.n_inputs = static_cast<int32_t>(given.size());
    with.code_bits = code_bits;
    with.floor = floor;

    nb::gil_scoped_release unlocked;
    const std::lock_guard<std::mutex> alone(of->reading);
    const bs_graph_desc desc = room_for(*of, peeks);
    const size_t bytes = bs_graph_bytes(&desc);
    throw_unless(bytes > 0, error);
    room = std::make_unique<memory>("graph", bytes);
    built = bs_graph_create(&room->arena, &desc);
    throw_unless(built, error);
    throw_unless(bs_model_build(of->opened, built, &with, &error) == BS_OK, error);
    for (const peek &p : peeks)
        add_peek(built, p);
    throw_unless(bs_graph_check(built, &error) == BS_OK, error);
}

/* Type and shape of an input or output; none when there is none of that name. */
static nb::object port_of(const graph &g, const std::string &name)
{
    bs_port_facts facts;
    if (bs_graph_port_get(g.built, name.c_str(), &facts) != BS_OK)
        return nb::none();
    return nb::make_tuple(facts.output, bs_dtype_name(facts.dtype),
                          std::vector<int64_t>(facts.dim, facts.dim + facts.rank));
}

static nb::object router_of(const graph &g, const std::string &name)
{
    bs_router_facts facts;
    if (bs_graph_router_get(g.built, name.c_str(), &facts) != BS_OK)
        return nb::none();
    return nb::make_tuple(facts.paths, facts.patch_size);
}

static std::vector<std::string> lines_of(const graph &g)
{
    std::vector<std::string> lines;
    for (int32_t node = 1;; node++) {
        lines.push_back(text_of([&](char *text, size_t n) { return bs_graph_describe(g.built, node, text, n); }));
        if (lines.back().empty())
            break;
    }
    lines.pop_back();
    return lines;
}

/* ------------------------------------------------------------------------------------------------ classes */

static void define_facts(nb::module_ &m)
{
    nb::class_<bs_model_facts>(m, "Facts", "What a model file says of itself.")
        .def_prop_ro("name", [](const bs_model_facts &f) { return std::string(f.name); })
        .def_ro("version", &bs_model_facts::version)
        .def_ro("opset", &bs_model_facts::opset)
        .def_ro("scale", &bs_model_facts::scale)
        .def_ro("file_bytes", &bs_model_facts::file_bytes)
        .def_ro("weight_bytes", &bs_model_facts::weight_bytes)
        .def_ro("direct", &bs_model_facts::direct);
    nb::class_<bs_model_block_facts>(m, "Block", "A range of nodes, and the record of its weights in the file.")
        .def_prop_ro("name", [](const bs_model_block_facts &f) { return std::string(f.name); })
        .def_ro("first_node", &bs_model_block_facts::first_node)
        .def_ro("end_node", &bs_model_block_facts::end_node)
        .def_ro("weights", &bs_model_block_facts::weights)
        .def_ro("offset", &bs_model_block_facts::offset)
        .def_ro("bytes", &bs_model_block_facts::bytes)
        .def_ro("crc32", &bs_model_block_facts::crc32)
        .def("__repr__", [](const bs_model_block_facts &f) {
            return "<block " + std::string(f.name) + ", " + std::to_string(f.bytes) + " bytes>";
        });
}

void define_models(nb::module_ &m)
{
    define_facts(m);
    nb::class_<model>(m, "Model", "An open model file.")
        .def_static("open_file", &model::open_file, nb::arg("path"))
        .def_static("open_memory", &model::open_memory, nb::arg("data"))
        .def_prop_ro("facts", &facts_of)
        .def_prop_ro("blocks", &blocks_of)
        .def_prop_ro("weights", &weights_of)
        .def_prop_ro("index_bytes", [](const model &o) { return o.index->bytes; })
        .def("no_streaming", &no_streaming, "Why its weights cannot be streamed; empty: they can.")
        .def("check", &check_records, "Reads every record and compares its checksum.");
    nb::class_<graph>(m, "Graph", "The graph of a model.")
        .def("__init__",
             [](graph *g, std::shared_ptr<model> of, const std::vector<std::tuple<std::string, std::vector<int64_t>>> &in,
                const std::vector<std::tuple<std::string, int32_t, std::string>> &peeks, int32_t code_bits,
                int32_t floor) {
                 std::vector<extents> inputs;
                 std::vector<peek> looks;
                 for (const auto &[name, dims] : in)
                     inputs.push_back({name, dims});
                 for (const auto &[name, value, way] : peeks)
                     looks.push_back({name, value, way});
                 new (g) graph(std::move(of), inputs, looks, code_bits, floor);
             },
             nb::arg("model"), nb::arg("extents"), nb::arg("peeks"), nb::arg("code_bits") = 0, nb::arg("floor") = 0)
        .def("port", &port_of, nb::arg("name"), "(output, dtype, shape) or None")
        .def("router", &router_of, nb::arg("name"), "(paths, patch size) or None")
        .def("lines", &lines_of, "A line about each node.")
        .def_prop_ro("bytes", [](const graph &g) { return g.room->bytes; });
}

} // namespace brainstorm
