/* ops/weights.h - from a weight source to the tensor that an op wants.
 * Owns the checks between what a source offers and what an op declares, and the widening of storage types.
 * Relies on base/base.h and graph/op.h (bs_weight_spec). Must never know files, and never trust a source's shapes. */
#ifndef BS_WEIGHTS_H
#define BS_WEIGHTS_H

#include "ops/table.h"

/* Bytes of the tensor as the op wants it (spec->dtype). UINT64_MAX when they cannot be counted. */
bs_bytes bs_weight_spec_bytes(const bs_weight_spec *spec);

/* "body.0.weight", from the node and the op's suffix; [2 * BS_MAX_NAME] holds every name. */
void bs_weight_name(char *text, size_t bytes, const bs_node *node, const char *suffix);
/* "[8, 4, 3, 3]", for messages. */
const char *bs_weight_shape_text(int32_t rank, const int64_t *dim, char *buffer, size_t bytes);

/* Finds `name` and checks it against what the op declares: same rank and dimensions; same type, or f16/bf16 where
 * f32 is wanted. BS_ERROR_WEIGHTS with a message that names tensor, shape found and shape wanted. */
bs_status bs_weight_find(const bs_weights *weights, const char *name, const bs_weight_spec *spec, bs_weight_info *info,
                         bs_error *error);

/* The tensor in place, when the source can map it and its type is already the wanted one; else NULL. */
const void *bs_weight_view(const bs_weights *weights, const bs_weight_spec *spec, const bs_weight_info *info);

/* Reads a found tensor to `target` (bs_weight_spec_bytes, 4-byte aligned) in the wanted type. Needs no scratch:
 * narrow storage is read into the far half of the target and widened in place. */
bs_status bs_weight_load(const bs_weights *weights, const char *name, const bs_weight_spec *spec,
                         const bs_weight_info *info, bs_tier tier, void *target, bs_error *error);
/* The same of its rows (of the first dimension) first .. first + count. */
bs_status bs_weight_load_rows(const bs_weights *weights, const char *name, const bs_weight_spec *spec,
                              const bs_weight_info *info, int32_t first, int32_t count, bs_tier tier, void *target,
                              bs_error *error);

/* f16 or bf16 to f32, first to last: `narrow` may lie in the same memory, element i at or beyond the end of target
 * element i, or wholly apart. Neither needs to be aligned. */
void bs_weight_widen(bs_tier tier, void *target, const void *narrow, bs_bytes elements, bs_dtype stored);

/* Staging that reading a node's tensors takes: rows of the first one at a time where its op prepares rows, none where
 * they are copied. */
bs_bytes bs_weight_staging(const bs_op *op, const bs_weight_spec *specs, int32_t count);
/* Rows of the first tensor that are read at a time. 0: it is read whole. */
int32_t bs_weight_rows(const bs_op *op, const bs_weight_spec *specs);

/* Prepares a node's tensors, in the order in which its op declares them, as its kernel wants them. */
void bs_weight_prepare(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan, const void *const *tensors,
                       void *prepared);

#endif
