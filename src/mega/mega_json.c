// Models, plans and proofs as JSON.
#include "base/doc.h"
#include "mega/mega.h"

static json_t *tensor_json(const struct mega_tensor *t)
{
  json_t *dims = json_array();
  for (int d = 0; d < t->rank; d++) json_array_append_new(dims, json_integer(t->dim[d]));
  return json_pack("{s:s, s:s, s:s, s:o, s:b, s:i}", "name", t->name, "kind", mega_kinds[t->kind].name, "type", mega_types[t->type].name, "shape",
                   dims, "shared", t->shared, "split", t->shard.n ? t->shard.dim : -1);
}

static json_t *op_json(const struct mega_model *m, const struct mega_op *op)
{
  json_t *reads = json_array(), *writes = json_array(), *with = json_object();
  for (int a = 0; a < op->spec.nargs; a++) json_array_append_new(op->spec.writes[a] ? writes : reads, json_string(m->tensor[op->arg[a]].name));
  for (int a = 0; a < MEGA_ATTR_COUNT; a++)
    if (op->spec.attrs >> a & 1 && op->attr[a] != 0) json_object_set_new(with, mega_attr_names[a], json_real(op->attr[a]));
  return json_pack("{s:s, s:s, s:i, s:i, s:o, s:o, s:o}", "name", op->name, "layer", op->layer->name, "layers", op->repeat, "tiles", op->tiles,
                   "reads", reads, "writes", writes, "with", with);
}

json_t *mega_model_json(const struct mega_model *m)
{
  json_t *tensors = json_array(), *ops = json_array();
  for (int i = 0; i < m->ntensors; i++) json_array_append_new(tensors, tensor_json(&m->tensor[i]));
  for (int i = 0; i < m->nops; i++) json_array_append_new(ops, op_json(m, &m->op[i]));
  return json_pack("{s:s, s:i, s:i, s:I, s:i, s:i, s:i, s:o, s:o}", "name", m->name, "world", m->world, "rows", m->rows, "context",
                   (json_int_t)m->context, "workers", m->workers, "stages", m->stages, "stage_bytes", m->stage_bytes, "tensors", tensors, "operators",
                   ops);
}

static json_t *event_json(const struct mega_plan *p, const struct mega_event *ev)
{
  json_t *tiles = json_array();
  char name[80];
  mega_node_name(p, ev->node, name);
  for (int i = 0; i < ev->nspans; i++) json_array_append_new(tiles, json_pack("[i, i]", ev->span[i].lo, ev->span[i].hi));
  return json_pack("{s:s, s:s, s:s, s:b, s:i, s:I, s:o}", "node", name, "kind", mega_signals[ev->kind].name, "tensor", p->m->tensor[ev->tensor].name,
                   "reuse", ev->reuse, "ranks", ev->ranks, "count", (json_int_t)ev->count, "tiles", tiles);
}

json_t *mega_plan_json(const struct mega_plan *p)
{
  json_t *events = json_array(), *waits = json_array(), *versions = json_object(), *schedule = json_array();
  for (int i = 0; i < p->nevents; i++) json_array_append_new(events, event_json(p, &p->event[i]));
  for (int i = 0; i < p->nwaits; i++) {
    const struct mega_wait *x = &p->wait[i];
    char name[80];
    mega_node_name(p, x->node, name);
    json_array_append_new(waits,
                          json_pack("{s:s, s:[i, i], s:i, s:i}", "node", name, "tiles", x->lo, x->hi, "event", x->event, "steps_back", x->back));
  }
  for (int t = 0; t < p->m->ntensors; t++)
    if (p->m->tensor[t].kind == MEGA_ACTIVATION) json_object_set_new(versions, p->m->tensor[t].name, json_integer(p->held[t].versions));
  for (int n = 0; n < p->nnodes; n++) {
    char name[80];
    json_t *shares = json_array();
    mega_node_name(p, n, name);
    for (int w = 0; w < p->m->workers; w++) json_array_append_new(shares, json_pack("[i, i]", mega_share(p, n, w).lo, mega_share(p, n, w).hi));
    json_array_append_new(schedule, json_pack("{s:s, s:o}", "node", name, "shares", shares));
  }
  return json_pack("{s:o, s:o, s:o, s:o, s:o}", "model", mega_model_json(p->m), "versions", versions, "events", events, "waits", waits, "schedule",
                   schedule);
}

json_t *mega_proof_json(const struct mega_proof *r)
{
  json_t *checks = json_array(), *faults = json_array();
  for (int c = 0; c < MEGA_CHECKS; c++) {
    bool failed = r->nfaults && (int)r->fault[0].check == c;
    json_array_append_new(checks, json_pack("{s:s, s:s, s:I}", "check", mega_checks[c].name, "answer",
                                            failed       ? "failed"
                                            : r->done[c] ? "holds"
                                                         : "not done",
                                            "looked", (json_int_t)r->looked[c]));
  }
  for (int i = 0; i < MIN(r->nfaults, MEGA_MOST_FAULTS); i++)
    json_array_append_new(faults, json_pack("{s:s, s:i, s:i, s:i, s:s}", "check", mega_checks[r->fault[i].check].name, "node", r->fault[i].node,
                                            "tile", r->fault[i].tile, "event", r->fault[i].event, "text", r->fault[i].text));
  return json_pack("{s:b, s:o, s:o}", "proved", r->nfaults == 0, "checks", checks, "faults", faults);
}
