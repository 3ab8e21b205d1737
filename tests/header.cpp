/* header.cpp - what brainstorm.h puts into a C++ program: macros expanded here must not warn where the program's own
 * code would not. Compiled by check.sh, never run. */
#include "brainstorm.h"

#include <cstdint>

BS_ALIGNED static std::uint8_t memory[64];
static const bs_dim some[2] = {BS_UPTO(4), 3};
bs_value build(bs_graph *graph, std::int64_t most);
std::uint8_t *room(void);

bs_value build(bs_graph *graph, std::int64_t most)
{
    const bs_value x = bs_input(graph, "x", BS_F32, BS_SHAPE4(1, BS_UPTO(most), BS_UPTO(1920), some[0]));
    const bs_value y = bs_state(graph, "y", BS_U8, BS_SHAPE1(bs_symbol(graph, nullptr, most)));
    bs_conv2d_desc conv = bs_conv2d_desc();
    conv.padding = BS_PAD_VALID;
    conv.groups = BS_DEPTHWISE;
    bs_route_desc route = bs_route_desc();
    route.protocol = BS_ROUTE_TABLE;
    route.keys = 64;
    bs_route(graph, x, BS_NONE, &route);
    return bs_conv2d(graph, y.id ? x : BS_NONE, &conv);
}

std::uint8_t *room() { return memory; }
