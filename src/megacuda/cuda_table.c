// Prints the plan's nodes, shares, events and waits as tables. The kernel has no other waits or publications.
#include "megacuda/megacuda.h"

#include <string.h>

// Sets *write to the number of the write that an access of a node reads or makes; 0 for a tensor that is written in place. For tagged data it is that
// of the plan's wait.
static int write_of(const struct mega_plan *p, int node, int access, int *write, struct err *e)
{
  const struct mega_op *op = mega_op_of(p, node);
  const struct mega_access *a = &op->spec.access[access];
  int tensor = op->arg[a->arg], back;
  const struct mega_held *h = &p->held[tensor];
  char name[80];
  *write = 0;
  if (p->m->tensor[tensor].kind != MEGA_ACTIVATION) return OK;
  if (a->out) {
    while (h->write[*write] != node) ++*write;
    return OK;
  }
  if (!h->tagged) return *write = mega_read_write(p, node, tensor, &back), OK;
  for (int i = 0; i < p->nwaits; i++) {
    const struct mega_wait *x = &p->wait[i];
    if (x->node == node && p->event[x->event].kind == MEGA_TAGGED && p->event[x->event].tensor == tensor) return *write = x->write, OK;
  }
  mega_node_name(p, node, name);
  return err_set(e, ERR_MEGA, op->at, "%s reads %s, but the plan has no event for it", name, p->m->tensor[tensor].name);
}

// Each iteration of a loop over layers writes a tensor equally often. So the number of a write is linear in the layer. Layer 0 is an exception: it
// may read a write before the loop.
int megacuda_write(const struct mega_plan *p, int op, int access, struct str *out, struct err *e)
{
  int write[3] = {0}, layers = MAX(p->m->op[op].repeat, 1); // write: numbers in layers 0, 1 and 2
  for (int n = 0; n < p->nnodes; n++) {
    int of, layer = p->node[n].layer;
    if (p->node[n].op != op) continue;
    TRY(write_of(p, n, access, &of, e));
    if (layer < 3) write[layer] = of;
    if (layer >= 3 && of != write[1] + (layer - 1) * (write[2] - write[1]))
      return err_set(e, ERR_MEGA, p->m->op[op].at, "%.40s: its writes are not linear in the layer", p->m->op[op].name);
  }
  int step = layers > 2 ? write[2] - write[1] : layers > 1 ? write[1] - write[0] : 0, first = layers > 1 ? write[1] - step : write[0];
  str_add(out, "  static DEV u32 write(int layer) { return ");
  if (first != write[0]) str_add(out, "!layer ? %d : ", write[0]);
  str_add(out, step ? "%d + (u32)layer * %d; }\n" : "%d; }\n", first, step);
  return OK;
}

const struct megacuda_fault_row megacuda_faults[MEGACUDA_FAULTS] = {
#define FAULT_KIND(id, hung, of, words) [MEGACUDA_##id] = {#id, words, hung, MEGACUDA_OF_##of},
#include "megacuda/fault.def"
};

void megacuda_fault_kinds(struct str *out)
{
  str_add(out, "enum fault_kind { NO_FAULT");
  for (int i = 1; i < MEGACUDA_FAULTS; i++) str_add(out, ", %s", megacuda_faults[i].id);
  str_add(out, " };\n");
}

static void print_faults(struct str *out)
{
#define X(id) "OF_" #id,
  static const char *const of[] = {MEGACUDA_SUBJECTS(X)};
#undef X
  str_add(out, "enum fault_of { ");
  for (size_t i = 0; i < COUNT(of); i++) str_add(out, "%s%s", i ? ", " : "", of[i]);
  str_add(out, " };\n");
  str_add(out, "static const plan_fault FAULT[] = { // whether it hung, what the record names, words\n  {false, OF_NOTHING, \"\"},\n");
  for (int i = 1; i < MEGACUDA_FAULTS; i++)
    str_add(out, "  {%s, %s, \"%s\"},\n", megacuda_faults[i].hung ? "true" : "false", of[megacuda_faults[i].of], megacuda_faults[i].words);
  str_add(out, "};\n");
}

static void print_nodes(const struct mega_plan *p, struct str *out)
{
  str_add(out, "static const plan_node NODE[] = { // operator, layer\n");
  for (int n = 0; n < p->nnodes; n++) str_add(out, "  {%d, %d},%s", p->node[n].op, p->node[n].layer, n % 12 == 11 ? "\n" : "");
  str_add(out, "};\n");
}

static void print_shares(const struct mega_plan *p, struct str *out)
{
  str_add(out, "static const unsigned short SHARE[] = { // by node and worker: the first tile and the end\n");
  for (int n = 0; n < p->nnodes; n++) {
    for (int w = 0; w < p->m->workers; w++) str_add(out, "%d,%d,", mega_share(p, n, w).lo, mega_share(p, n, w).hi);
    str_add(out, "\n");
  }
  str_add(out, "};\n");
}

static void print_events(const struct mega_plan *p, struct str *out)
{
  str_add(out, "static const plan_event EVENT[] = { // number, node, flag, count of a step, spans\n");
  for (int i = 0, at = 0; i < p->nevents; i++) {
    const struct mega_event *ev = &p->event[i];
    if (ev->kind == MEGA_TAGGED) continue;
    str_add(out, "  {%d, %d, %d, %lld, %d, %d},\n", i, ev->node, ev->kind == MEGA_FLAG, (long long)ev->count, at, at + ev->nspans);
    at += ev->nspans;
  }
  str_add(out, "  {-1, -1, 0, 0, 0, 0}};\nstatic const plan_span SPAN[] = {\n");
  for (int i = 0; i < p->nevents; i++)
    for (int s = 0; s < p->event[i].nspans && p->event[i].kind != MEGA_TAGGED; s++)
      str_add(out, "  {%d, %d},\n", p->event[i].span[s].lo, p->event[i].span[s].hi);
  str_add(out, "  {0, 0}};\nstatic const plan_wait WAIT[] = { // node, its tiles, event, steps back, whether the pipeline waits\n");
  for (int i = 0; i < p->nwaits; i++) {
    const struct mega_wait *x = &p->wait[i];
    if (p->event[x->event].kind != MEGA_TAGGED) str_add(out, "  {%d, %d, %d, %d, %d, %d},\n", x->node, x->lo, x->hi, x->event, x->back, x->stream);
  }
  str_add(out, "  {-1, 0, 0, 0, 0, 0}};\n");
}

// Prints the part of a tensor that a rank has: sections of a dimension, the dimension, its extent, elements per index of it.
static void print_part(const struct mega_tensor *t, struct str *out)
{
  int64_t inner = 1;
  for (int d = t->shard.dim + 1; d < t->rank; d++) inner *= t->dim[d];
  str_add(out, "{%d, %d, %lldll, %lldll, {%lld, %lld, %lld}}},\n", t->shard.n, t->shard.dim, (long long)t->dim[t->shard.dim], (long long)inner,
          (long long)t->shard.size[0], (long long)t->shard.size[1], (long long)t->shard.size[2]);
}

static void print_tensors(struct arena *mem, const struct mega_plan *p, int threads, struct str *out)
{
  str_add(out, "static const char *const NODE_NAME[] = {\n");
  for (int n = 0; n < p->nnodes; n++) {
    char name[80];
    mega_node_name(p, n, name);
    str_add(out, "\"%s\",%s", name, n % 12 == 11 ? "\n" : " ");
  }
  str_add(out, "};\nstatic const plan_tensor TENSOR[] = { // name, bytes of an element, elements, versions, bytes of all versions, whether it has "
               "words, scale, rows of "
               "the table, kind, slots, the tensor of whose values it is, the part that a rank has\n");
  for (int i = 0; i < p->m->ntensors; i++) {
    const struct mega_tensor *t = &p->m->tensor[i];
    const struct mega_held *h = &p->held[i];
    int64_t rows = 0;
    char scale[32];
    str_double(scale, mega_value_scale(p->m, i, &rows));
    str_add(out, "  {\"%s\", %d, %lldll, %d, %lldll, %s, %s, %lldll, '%c', %d, %d, ", t->name, mega_bytes(t->type), (long long)mega_elements(t),
            t->kind == MEGA_ACTIVATION ? h->versions : 1, (long long)megacuda_tensor_bytes(mem, p, i, threads), h->tagged ? "true" : "false", scale,
            (long long)rows, mega_kinds[t->kind].name[0], mega_slots(p->m, t), t->like - 1);
    print_part(t, out);
  }
  str_add(out, "};\n");
}

// Prints, for each operator, the tensors that it writes.
static void print_written(const struct mega_plan *p, struct str *out)
{
  str_add(out, "#if WORLD > 1\nstatic const int WRITTEN[OPS][%d] = {\n", MEGA_ARGS + 1);
  for (int o = 0; o < p->m->nops; o++) {
    str_add(out, "  {");
    for (int a = 0; a < p->m->op[o].spec.nargs; a++)
      if (p->m->op[o].spec.writes[a]) str_add(out, "%d, ", p->m->op[o].arg[a]);
    str_add(out, "-1},\n");
  }
  str_add(out, "};\n#endif\n");
}

// Prints the regions of the cache that are filled before the first step.
static void print_filled(struct arena *mem, const struct mega_plan *p, struct str *out)
{
  str_add(out, "static const plan_box FILLED[] = { // tensor, then the box of each dimension\n");
  for (int i = 0; i < p->m->ntensors; i++) {
    const struct mega_tensor *t = &p->m->tensor[i];
    struct mega_region r = {0};
    if (t->kind != MEGA_STATE) continue;
    mega_filled(mem, p->m, i, &r);
    for (int b = 0; b < r.n; b++) {
      str_add(out, "  {%d, %d, {", i, t->rank);
      for (int d = 0; d < t->rank; d++) str_add(out, "%s%lld", d ? ", " : "", (long long)t->dim[d]);
      str_add(out, "}, {");
      for (int d = 0; d < t->rank; d++) str_add(out, "%s%lld", d ? ", " : "", (long long)r.box[b].lo[d]);
      str_add(out, "}, {");
      for (int d = 0; d < t->rank; d++) str_add(out, "%s%lld", d ? ", " : "", (long long)r.box[b].hi[d]);
      str_add(out, "}},\n");
    }
  }
  str_add(out, "  {-1, 0, {0}, {0}, {0}}};\n");
}

// Checks that the plan's numbers fit in the narrow fields of a worker's rows, which are narrow to save shared memory for stages.
static int check_rows(const struct mega_plan *p, struct err *e)
{
  int64_t words = 0, count = 0, back = 0, publishes = 0;
  for (int i = 0; i < p->nevents; i++) {
    const struct mega_event *ev = &p->event[i];
    if (ev->kind == MEGA_TAGGED) continue;
    words += ev->kind == MEGA_FLAG ? p->m->workers : 1;
    count = MAX(count, ev->count);
  }
  for (int n = 0; n < p->nnodes; n++) {
    int64_t own = 0;
    for (int i = 0; i < p->nevents; i++) own += p->event[i].node == n && p->event[i].kind != MEGA_TAGGED;
    publishes = MAX(publishes, own);
  }
  for (int i = 0; i < p->nwaits; i++) back = MAX(back, p->wait[i].back);
  const struct {
    const char *what;
    int64_t is, most;
  } rows[] = {{"events", p->nevents, UINT16_MAX},
              {"words of counters and flags", words, UINT16_MAX},
              {"work tiles of an event", count, UINT16_MAX - 1}, // a planted fault waits for one more
              {"steps from a wait back to its event", back, UINT8_MAX},
              {"events of a node", publishes, UINT8_MAX}};
  for (size_t i = 0; i < COUNT(rows); i++)
    if (rows[i].is > rows[i].most)
      return err_set(e, ERR_MEGA, NOWHERE, "%lld %s; CUDA takes up to %lld", (long long)rows[i].is, rows[i].what, (long long)rows[i].most), NO;
  return OK;
}

int megacuda_tables(struct arena *mem, const struct mega_plan *p, int threads, struct str *out, struct err *e)
{
  for (int n = 0; n < p->nnodes; n++)
    if (p->pipe[n] != n) return err_set(e, ERR_MEGA, NOWHERE, "the pipeline order differs from the order of the nodes");
  TRY(check_rows(p, e));
  print_nodes(p, out), print_shares(p, out), print_events(p, out), print_tensors(mem, p, threads, out), print_written(p, out), print_faults(out),
      print_filled(mem, p, out);
  return OK;
}

void megacuda_count_rows(const struct mega_plan *p, struct megacuda_most *m)
{
  m->waits = m->publishes = 1;
  for (int w = 0; w < p->m->workers; w++) {
    int waits = 0, publishes = 0;
    for (int i = 0; i < p->nwaits; i++) {
      const struct mega_wait *x = &p->wait[i];
      const struct mega_event *ev = &p->event[x->event];
      struct mega_span s = mega_share(p, x->node, w);
      if (ev->kind != MEGA_TAGGED && MAX(s.lo, x->lo) < MIN(s.hi, x->hi)) waits += ev->kind == MEGA_FLAG ? mega_event_tasks(p, ev) : 1;
    }
    for (int i = 0; i < p->nevents; i++)
      publishes += p->event[i].kind != MEGA_TAGGED && mega_shared_tiles(&p->event[i], mega_share(p, p->event[i].node, w)) > 0;
    m->waits = MAX(m->waits, waits), m->publishes = MAX(m->publishes, publishes);
  }
}
