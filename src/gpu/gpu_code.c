// Device programs as code: the data of each launch, with all sizes evaluated, and the source of each kernel. Kernels with the same source are stored
// once. A program and its parts have the same sources.
#include "gpu/gpu.h"
#include "cuda/cuda.h"

#include <string.h>

// The kernel with names that do not depend on the program: so the parts of a program and the whole have the same text, which is compiled once. With line
// tables the text refers to the lines of the tile program, and names stay.
static struct tile_kernel anonymous(struct arena *mem, const struct tile_kernel *k, const char *name)
{
  struct tile_kernel own = *k;
  own.name = name;
  own.buffers = arena_copy(mem, k->buffers, sizeof *k->buffers * (size_t)MAX(k->nbuffers, 1));
  for (int i = 0; i < k->nbuffers; i++) own.buffers[i].name = arena_printf(mem, "b%d", i);
  return own;
}

#define PLACEHOLDER "kernel_of_mica"

// Appends the lines that are no comments. Comments are statements of the tile program, with its names.
static void add_code(struct str *s, const char *text)
{
  for (const char *line = text; *line;) {
    const size_t n = strcspn(line, "\n"), from = strspn(line, " ");
    if (strncmp(line + from, "//", 2) != 0) str_add(s, "%.*s\n", (int)n, line);
    line += n + (line[n] == '\n');
  }
}

static void add_renamed(struct str *s, const char *text, const char *name)
{
  for (const char *at; (at = strstr(text, PLACEHOLDER)); text = at + strlen(PLACEHOLDER))
    str_raw(s, text, (size_t)(at - text)), str_add(s, "%s", name);
  str_add(s, "%s", text);
}

// The kernel's name is the program's, and a hash of the text: `softmax_1` may become softmax_5d1c03a9.
static int print_tile(struct arena *mem, const struct launch *l, int arch, bool named, const char **name, struct str *s, struct err *e)
{
  *name = cuda_kernel_name(mem, l->k);
  if (named || cuda_line_info()) return cuda_print(l->p, l->k, arch, s, e);
  const char *own = *name, *end = own + strlen(own);
  while (end > own && end[-1] >= '0' && end[-1] <= '9') end--;
  const int n = (int)(end - own) - (end > own && end[-1] == '_');
  const struct tile_kernel k = anonymous(mem, l->k, PLACEHOLDER);
  struct str text = {0}, code = {0};
  int status = cuda_print(l->p, &k, arch, &text, e);
  add_code(&code, str_text(&text));
  *name = arena_printf(mem, "%.*s_%08x", n, own, (unsigned)hash_bytes(str_text(&code), code.n, 1));
  add_renamed(s, str_text(&code), *name);
  return str_free(&text), str_free(&code), status;
}

static bool same_meeting(const struct meeting *a, const struct meeting *b)
{
  return a->how == b->how && a->ranks == b->ranks && a->type == b->type && a->outer == b->outer && a->inner == b->inner;
}

// A collective is named after the first launch of an equal one.
static int print_meeting(const struct code *c, const struct launch *l, const char **name, struct str *s)
{
  const struct code_launch *first = c->launch;
  while (!same_meeting(&first->meet, &l->meet)) first++; // ends at l at the latest
  meeting_print(&l->meet, &c->room, *name = first->name, s);
  return OK;
}

static int kernel_of(struct arena *mem, struct code *c, const struct launch *l, int arch, bool named, int *out, struct err *e)
{
  struct str s = {0};
  const char *name;
  int status = l->meet.ranks ? print_meeting(c, l, &name, &s) : print_tile(mem, l, arch, named, &name, &s, e);
  for (*out = 0; status == OK && *out < c->nkernel; ++*out)
    if (!strcmp(c->kernel[*out].source, str_text(&s))) break;
  if (status == OK && *out == c->nkernel)
    c->kernel[c->nkernel++] = (struct code_kernel){.name = name,
                                                   .source = arena_strdup(mem, str_text(&s)),
                                                   .shared = l->k ? l->k->shared_bytes : 0,
                                                   .cluster = l->k ? MAX(1, l->k->cluster) : 1,
                                                   .registers = -1,
                                                   .spilled = -1};
  str_free(&s);
  return status;
}

static int check_args(const struct launch *l, struct err *e)
{
  int buffers = 0;
  for (int i = 0; i < l->k->nbuffers; i++) buffers += l->k->buffers[i].mem == MEM_GL;
  if (buffers != l->nargs) return err_set(e, ERR_TILE, l->k->at, "the kernel %s has %d buffers, and is given %d", l->name, buffers, l->nargs);
  for (int i = 0; i < l->k->nparams; i++)
    if (!ex_is_const(l->k->params[i])) return err_set(e, ERR_TILE, l->k->at, "the kernel %s has a size that is not a constant", l->name);
  for (int i = 0; i < l->nargs; i++)
    if (l->arg[i].written && l->arg[i].at.kind == PLACE_INPUT)
      return err_set(e, ERR_TILE, l->k->at, "the kernel %s writes to input %d of the program", l->name, l->arg[i].at.index);
  return OK;
}

static int map_of(const struct launch *l, const int64_t *zeros, const struct tile_map *m, struct gpu_map_shape *s, struct err *e)
{
  const struct tile_buffer *b = &l->k->buffers[m->buf];
  int bytes = tile_types[b->type].bytes;
  *s = (struct gpu_map_shape){.type = b->type, .rank = m->rank, .swizzle_bytes = m->swizzle_bytes};
  for (int i = 0; i < m->rank; i++) {
    s->size[i] = (uint64_t)ex_eval(l->p->ex, m->size[i], zeros);
    s->stride[i] = (uint64_t)(ex_eval(l->p->ex, m->stride[i], zeros) * bytes);
    s->box[i] = (uint32_t)m->box[i];
    if (i && s->stride[i] % 16)
      return err_set(e, ERR_TILE, l->k->at, "rows of %s are %llu bytes apart; TMA needs a multiple of 16", b->name, (unsigned long long)s->stride[i]);
  }
  return OK;
}

static bool waits(const struct tile_kernel *k)
{
  for (int i = 0; i < k->nspecs; i++)
    if (k->specs[i].atom && k->specs[i].atom->row->sem == SEM_GRID_WAIT) return true;
  return false;
}

// Arguments in the order of the kernel's parameters: buffers, then tensor maps.
static int kernel_launch(struct arena *mem, const struct launch *l, struct code_launch *out, struct err *e)
{
  const struct tile_kernel *k = l->k;
  if (check_args(l, e)) return e->status;
  const int64_t *zeros = NEWS(mem, int64_t, ex_vars(l->p->ex) + 1);
  int *arg_of = NEWS(mem, int, k->nbuffers + 1);
  out->arg = NEWS(mem, struct code_arg, l->nargs + k->nmaps + 1);
  for (int i = 0; i < k->nbuffers; i++)
    if (k->buffers[i].mem == MEM_GL) arg_of[i] = out->narg, out->arg[out->narg].at = l->arg[out->narg].at, out->narg++;
  for (int i = 0; i < k->nmaps; i++) {
    struct code_arg *a = &out->arg[out->narg++];
    a->is_map = true, a->at = out->arg[arg_of[k->maps[i].buf]].at;
    if (map_of(l, zeros, &k->maps[i], &a->map, e)) return e->status;
  }
  out->blocks = ex_eval(l->p->ex, k->groups[k->grid].size, zeros);
  out->threads = (int)ex_eval(l->p->ex, k->groups[k->threads].size, zeros);
  out->dependent = l->dependent && waits(k);
  if (out->blocks % MAX(1, k->cluster))
    return err_set(e, ERR_TILE, k->at, "%lld blocks do not make clusters of %d", (long long)out->blocks, k->cluster);
  return OK;
}

static int product_launch(struct arena *mem, const struct launch *l, struct code_launch *out, struct err *e)
{
  if (l->nargs != blas_operands(&l->mul)) return err_set(e, ERR_GRAPH, NOWHERE, "the product %s has %d operands", l->name, l->nargs);
  out->mul = l->mul, out->algorithm = l->algorithm, out->narg = l->nargs, out->arg = NEWS(mem, struct code_arg, l->nargs);
  for (int i = 0; i < l->nargs; i++) out->arg[i].at = l->arg[i].at;
  return OK;
}

static int meeting_launch(struct arena *mem, const struct launch *l, int processors, struct code_launch *out)
{
  out->meet = l->meet, out->narg = l->nargs, out->arg = NEWS(mem, struct code_arg, l->nargs + 1);
  for (int i = 0; i < l->nargs; i++) out->arg[i].at = l->arg[i].at;
  return out->blocks = meeting_blocks(&l->meet, processors), out->threads = MEETING_THREADS, OK;
}

static void states(struct arena *mem, const struct graph *g, struct code *c)
{
  if (!g) return; // kernels without a graph
  int outs = 0, *ins = NEWS(mem, int, graph_inputs(g, NULL) + 1);
  graph_inputs(g, ins);
  c->state = NEWS(mem, struct code_state, graph_outputs(g, NULL) + 1);
  for (int i = 0; i < g->nnodes; i++) {
    if (g->nodes[i].op != OP_OUTPUT) continue;
    const int in = output_state(g, &g->nodes[i]), out = outs++;
    if (in < 0) continue;
    const struct tensor *t = &g->tensors[ins[in]];
    c->state[c->nstate++] = (struct code_state){in, out, shape_size(&t->shape) * dtype_bytes(t->dtype)};
  }
}

static int make(struct arena *mem, const struct device_program *p, bool named, struct code *out, struct err *e)
{
  *out = (struct code){.kernel = NEWS(mem, struct code_kernel, p->nlaunch + 1),
                       .launch = NEWS(mem, struct code_launch, p->nlaunch + 1),
                       .workspace = p->workspace,
                       .zeroed = p->zeroed,
                       .world = p->g ? p->g->world : 1};
  for (int i = 0; i < p->nlaunch; i++)
    if (p->launch[i].meet.ranks) meeting_room(&p->launch[i].meet, &out->room);
  states(mem, p->g, out);
  for (int i = 0; i < p->nlaunch; i++) {
    const struct launch *l = &p->launch[i];
    struct code_launch *c = &out->launch[out->nlaunch++];
    *c = (struct code_launch){.name = l->name ? l->name : "", .how = l->how ? l->how : "", .kernel = -1, .algorithm = -1};
    int status = l->product ? product_launch(mem, l, c, e) : l->meet.ranks ? meeting_launch(mem, l, p->gpu->cores, c) : kernel_launch(mem, l, c, e);
    if (status == OK && !l->product) status = kernel_of(mem, out, l, p->gpu->arch, named, &c->kernel, e);
    if (status != OK) return status;
  }
  return OK;
}

int code_make(struct arena *mem, const struct device_program *p, struct code *out, struct err *e) { return make(mem, p, false, out, e); }
int code_make_named(struct arena *mem, const struct device_program *p, struct code *out, struct err *e) { return make(mem, p, true, out, e); }

int64_t code_exchange(const struct code *c) { return meeting_memory(c->world, &c->room); }

void code_copy(struct arena *mem, const struct code *c, struct code *out)
{
  *out = *c;
  out->kernel = arena_copy(mem, c->kernel, sizeof *c->kernel * (size_t)(c->nkernel + 1));
  out->launch = arena_copy(mem, c->launch, sizeof *c->launch * (size_t)(c->nlaunch + 1));
  out->state = arena_copy(mem, c->state, sizeof *c->state * (size_t)(c->nstate + 1));
  for (int i = 0; i < c->nkernel; i++) {
    struct code_kernel *k = &out->kernel[i];
    k->name = arena_strdup(mem, k->name), k->source = k->source ? arena_strdup(mem, k->source) : NULL;
    k->cubin = arena_copy(mem, k->cubin, (size_t)k->bytes);
  }
  for (int i = 0; i < c->nlaunch; i++) {
    struct code_launch *l = &out->launch[i];
    l->name = arena_strdup(mem, l->name), l->how = arena_strdup(mem, l->how);
    l->arg = arena_copy(mem, l->arg, sizeof *l->arg * (size_t)MAX(l->narg, 1));
  }
}

static uint64_t product_hash(const struct blas_product *m, uint64_t h)
{
  const int64_t numbers[] = {m->batch, m->m, m->n, m->k, m->epilogue};
  const float factors[] = {m->alpha, m->beta};
  h = hash_bytes(factors, sizeof factors, hash_bytes(numbers, sizeof numbers, h));
  return hash_bytes(m->stride, sizeof m->stride, h);
}

static uint64_t meeting_hash(const struct meeting *m, uint64_t h)
{
  const int64_t numbers[] = {m->how, m->ranks, m->type, m->outer, m->inner};
  return hash_bytes(numbers, sizeof numbers, h);
}

uint64_t program_hash(const struct device_program *p, uint64_t seed)
{
  uint64_t h = hash_mix(hash_mix(hash_mix(seed, (uint64_t)p->workspace), (uint64_t)p->zeroed), (uint64_t)p->gpu->arch);
  for (int i = 0; i < p->nlaunch; i++) {
    const struct launch *l = &p->launch[i];
    const int64_t facts[] = {l->product, l->dependent, l->nargs};
    h = hash_bytes(facts, sizeof facts, h);
    h = l->product ? product_hash(&l->mul, h) : l->text ? hash_bytes(l->text, strlen(l->text), h) : meeting_hash(&l->meet, h);
    for (int k = 0; k < l->nargs; k++) {
      const int64_t arg[] = {l->arg[k].at.kind, l->arg[k].at.index, l->arg[k].at.offset, l->arg[k].type, l->arg[k].elements};
      h = hash_bytes(arg, sizeof arg, h);
    }
  }
  return h;
}
