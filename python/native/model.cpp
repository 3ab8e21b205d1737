/* model.cpp - model files, and graphs that are built from them.
 *
 * Relies on objects.hpp. Must never keep a graph whose building failed, nor open what may change: bytes are held. */
#include "objects.hpp"

#include <algorithm>

#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace brainstorm {

/* ------------------------------------------------------------------------------------------------- models */

std::shared_ptr<model> model::open_file(nb::bytes path)
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

static bs_model_facts facts_of(model &m)
{
    bs_model_facts facts;
    const std::lock_guard<std::mutex> alone(m.reading); /* who has it does not wait for the GIL */
    bs_model_facts_get(m.opened, &facts);
    return facts;
}

static std::vector<bs_model_block_facts> blocks_of(model &m)
{
    std::vector<bs_model_block_facts> blocks(static_cast<size_t>(facts_of(m).blocks));
    const std::lock_guard<std::mutex> alone(m.reading);
    for (size_t i = 0; i < blocks.size(); i++)
        bs_model_block_get(m.opened, static_cast<int32_t>(i), &blocks[i]);
    return blocks;
}

/* Of every weight: name, number of its block, type, shape. */
static std::vector<std::tuple<std::string, int32_t, std::string, std::vector<int64_t>>> weights_of(model &m)
{
    std::vector<std::tuple<std::string, int32_t, std::string, std::vector<int64_t>>> weights;
    const int32_t count = facts_of(m).weights;
    const std::lock_guard<std::mutex> alone(m.reading);
    for (int32_t i = 0; i < count; i++) {
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
static std::string no_streaming(model &m)
{
    bs_error error{};
    const std::lock_guard<std::mutex> alone(m.reading);
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

static int32_t count_nodes(const bs_graph *g)
{
    bs_node_facts facts;
    int32_t n = 0;
    while (bs_graph_node_get(g, n + 1, &facts) == BS_OK)
        n++;
    return n;
}

/* The node that gives a value. */
static bool find_maker(const bs_graph *g, int32_t value, bs_node_facts *facts)
{
    for (int32_t n = 1; bs_graph_node_get(g, n, facts) == BS_OK; n++)
        if (facts->values > 0 && value >= facts->value.id && value - facts->value.id < facts->values)
            return true;
    return false;
}

/* A value of one path, for all rows that its router decides about: zeros where they do not take it. */
static bs_value gathered(bs_graph *g, const bs_node_facts &maker, bs_value value, bool add)
{
    std::vector<bs_value> paths(BS_MAX_PATHS, bs_value{0}); /* bs_gather reads as many as there are */
    paths[static_cast<size_t>(maker.path)] = value;
    bs_gather_desc desc{};
    desc.mode = add ? BS_GATHER_ADD : BS_GATHER_PLACE;
    return bs_gather(g, maker.router, paths.data(), bs_value{0}, &desc);
}

static void add_peek(bs_graph *g, const peek &p)
{
    bs_value value = {p.value};
    bs_node_facts maker;
    bool found = find_maker(g, p.value, &maker);
    if (!found)
        throw failure(BS_ERROR_ARGUMENT, "there is no value " + std::to_string(p.value) + " in the graph");
    while (maker.router.id != 0) { /* from the inside out; the last node is the gather */
        value = gathered(g, maker, value, p.add);
        if (value.id == 0 || bs_graph_node_get(g, count_nodes(g), &maker) != BS_OK)
            break;
    }
    if (maker.kind == BS_ROWS_TENSOR)
        value = bs_collect(g, value);
    else if (maker.kind == BS_ROWS_PATCHES)
        value = bs_assemble(g, value);
    bs_output(g, p.name.c_str(), value);
}

/* The paths of all routers, and how many routers there are. Names of other nodes may be those of routers. */
static std::map<std::string, int64_t> routers_of(const bs_graph *g)
{
    std::map<std::string, int64_t> routers;
    bs_node_facts node;
    bs_router_facts facts;
    for (int32_t n = 1; bs_graph_node_get(g, n, &node) == BS_OK; n++)
        if (bs_graph_router_get(g, node.name, &facts) == BS_OK)
            routers[node.name] = facts.paths;
    return routers;
}

/* What the file needs, and what looking into it adds: a gather for each router that a value is inside of, a collect and
 * an output. What is beyond the library's limits is refused by it. */
static bs_graph_desc room_for(const model &m, const std::vector<peek> &peeks, const graph *whole)
{
    bs_graph_desc desc = bs_model_graph_desc(m.opened);
    if (peeks.empty() || !whole)
        return desc;
    const std::map<std::string, int64_t> routers = routers_of(whole->built);
    const auto nodes = static_cast<int64_t>(routers.size()) + 2;
    int64_t operands = nodes;
    for (const auto &[name, paths] : routers)
        operands += paths + 1;
    const auto grow = [&](int32_t &room, int64_t each, int64_t most) {
        room = static_cast<int32_t>(std::min(room + each * static_cast<int64_t>(peeks.size()), most));
    };
    grow(desc.max_nodes, nodes, 1 << 24);
    grow(desc.max_values, nodes, 1 << 24);
    grow(desc.max_operands, operands, 1 << 26);
    grow(desc.max_dims, 8, 1 << 24);
    grow(desc.max_text_bytes, 16 * nodes + BS_MAX_NAME, 1 << 30);
    return desc;
}

graph::graph(std::shared_ptr<model> of_model, const std::vector<extents> &inputs, const std::vector<peek> &peeks,
             const graph *whole, int32_t code_bits, int32_t floor)
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
    const bs_graph_desc desc = room_for(*of, peeks, whole);
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

static std::vector<std::string> ports_of(const graph &g)
{
    std::vector<std::string> names;
    for (int32_t i = 0; const char *name = bs_graph_port_name(g.built, i); i++)
        names.push_back(name);
    return names;
}

static std::vector<node> nodes_of(const graph &g)
{
    std::vector<node> nodes;
    bs_node_facts facts;
    for (int32_t n = 1; bs_graph_node_get(g.built, n, &facts) == BS_OK; n++)
        nodes.push_back({n, facts.op, facts.name,
                         text_of([&](char *text, size_t bytes) { return bs_graph_describe(g.built, n, text, bytes); }),
                         facts});
    return nodes;
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

static void graph_init(graph *g, std::shared_ptr<model> of,
                       const std::vector<std::tuple<std::string, std::vector<int64_t>>> &in,
                       const std::vector<std::tuple<std::string, int32_t, bool>> &peeks, const graph *whole,
                       int32_t code_bits, int32_t floor)
{
    std::vector<extents> inputs;
    std::vector<peek> looks;
    for (const auto &[name, dims] : in)
        inputs.push_back({name, dims});
    for (const auto &[name, value, add] : peeks)
        looks.push_back({name, value, add});
    new (g) graph(std::move(of), inputs, looks, whole, code_bits, floor);
}

static void define_nodes(nb::module_ &m)
{
    nb::class_<node>(m, "Node", "A node of a graph: bs_graph_node_get.")
        .def_ro("number", &node::number)
        .def_ro("op", &node::op)
        .def_ro("name", &node::name)
        .def_ro("line", &node::line, "As `brainstorm inspect` shows it.")
        .def_prop_ro("block", [](const node &n) { return n.facts.block; })
        .def_prop_ro("values",
                     [](const node &n) {
                         std::vector<int32_t> values;
                         for (int32_t i = 0; i < n.facts.values; i++)
                             values.push_back(n.facts.value.id + i);
                         return values;
                     },
                     "The numbers of what it gives.")
        .def_prop_ro("router", [](const node &n) { return n.facts.router.id; }, "Whose rows it works on; 0: no path's.")
        .def_prop_ro("path", [](const node &n) { return n.facts.path; })
        .def_prop_ro("flops", [](const node &n) { return n.facts.flops; }, "Of one row.")
        .def_prop_ro("bytes", [](const node &n) { return n.facts.bytes; }, "Of one row: read and written.")
        .def_prop_ro("weight_bytes", [](const node &n) { return n.facts.weight_bytes; })
        .def("__repr__", [](const node &n) { return "<node " + n.line + ">"; });
}

void define_models(nb::module_ &m)
{
    define_facts(m);
    define_nodes(m);
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
        .def("__init__", &graph_init, nb::arg("model"), nb::arg("extents"), nb::arg("peeks"),
             nb::arg("whole").none() = nb::none(), nb::arg("code_bits") = 0, nb::arg("floor") = 0)
        .def("port", &port_of, nb::arg("name"), "(output, dtype, shape) or None")
        .def_prop_ro("ports", &ports_of)
        .def_prop_ro("routers", [](const graph &g) { return routers_of(g.built); }, "{name: paths}")
        .def_prop_ro("nodes", &nodes_of)
        .def_prop_ro("bytes", [](const graph &g) { return g.room->bytes; });
}

} // namespace brainstorm
