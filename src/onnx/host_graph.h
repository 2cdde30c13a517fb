// Runs subgraphs by simple functions (host_graph.c).
#ifndef MICA_ONNX_HOST_GRAPH_H
#define MICA_ONNX_HOST_GRAPH_H

#include "onnx/onnx_host.h"

// the subgraph of an attribute; NULL after a failure, and while a model is planned
const struct onnx_graph *graph_of(struct onnx_host *h, const char *name);
// Runs g on `in`. Its results are in mem, or are inputs.
bool graph_run(struct onnx_host *h, struct arena *mem, const struct onnx_graph *g, int nin, const struct onnx_cells *const *in,
               const struct onnx_cells **out);

#endif
