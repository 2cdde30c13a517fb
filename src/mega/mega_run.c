// Runs a plan: allocates memory, starts threads, and runs the work tiles. A consumer waits for a tile's events, loads its regions, calls the body and
// stores. It publishes the events of a task after the last tile.
#include "mega/mega_threads.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

// ---- a work tile ----

static bool any_element(const struct mega_access *a)
{
  for (int d = 0; d < a->rank; d++)
    if (a->dim[d].how == MEGA_ANY) return true;
  return false;
}

// Loads the regions of the tile, one box after another. `at` is the offset of the current box's packed elements.
static bool load(struct mega_thread *t, struct mega_task *task)
{
  const struct mega_plan *p = t->run->p;
  const struct mega_op *op = task->op;
  struct mega_region r = {0};
  float *at = t->scratch;
  for (int a = 0; a < op->spec.naccess; a++) {
    const struct mega_access *x = &op->spec.access[a];
    const struct mega_tensor *of = &p->m->tensor[op->arg[x->arg]];
    if (x->stream) continue;
    r.n = 0;
    mega_region(&t->own, p->m, op, a, p->node[t->node].layer, t->tile, t->step, &r);
    task->box[a] = r.box[0];
    if (any_element(x)) {
      task->table = t->run->memory[op->arg[x->arg]].plain, task->table_stride = of->dim[1];
      continue;
    }
    if (x->slots) task->slots = mega_slots(p->m, of);
    task->data[a] = at, at += mega_volume(x->rank, &r.box[0]) * (x->slots ? task->slots : 1);
    if (!x->out && !mega_gather(t, a, &r.box[0], task->data[a])) return false;
  }
  return task->spare = at, true;
}

static bool is_token(const struct mega_tensor *t) { return t->kind == MEGA_STATE && t->rank == 1 && !strcmp(mega_types[t->type].name, "i32"); }

static void keep_tokens(struct mega_thread *t, const struct mega_box *b, const float *x)
{
  for (int64_t i = b->lo[0]; i < MIN(b->hi[0], t->run->p->m->rows); i++)
    t->run->out->tokens[t->step * t->run->p->m->rows + i] = (int32_t)x[i - b->lo[0]];
}

static void store(struct mega_thread *t, const struct mega_task *task)
{
  const struct mega_model *m = t->run->p->m;
  for (int a = 0; a < task->op->spec.naccess; a++) {
    const struct mega_access *x = &task->op->spec.access[a];
    if (!x->out) continue;
    const struct mega_tensor *of = &m->tensor[task->op->arg[x->arg]];
    mega_scatter(t, a, &task->box[a], task->data[a]);
    if (is_token(of)) keep_tokens(t, &task->box[a], task->data[a]);
  }
}

static bool run_tile(struct mega_thread *t)
{
  const struct mega_plan *p = t->run->p;
  struct mega_task task = {.op = mega_op_of(p, t->node), .m = p->m, .step = t->step, .slots = 1, .next = mega_next_piece, .runner = t};
  const struct mega_tensor *x = &p->m->tensor[task.op->arg[0]];
  if (x->shard.n) task.columns = t->run->rank * x->dim[x->rank - 1];
  struct arena_mark mark = arena_mark(&t->own);
  memset(t->scratch, 0, sizeof(float) * (size_t)t->run->scratch_floats);
  bool fine = mega_wait_tile(t) && load(t, &task);
  if (fine) {
    mega_list_pieces(t, t->step);
    task.position = mega_seat_of(p->m, (int)task.box[0].lo[0], t->step).position;
    task.op->layer->body(&task);
    fine = mega_finish_pieces(t, &task);
  }
  if (task.fault) mega_stop(t, false, "worker %d in step %d at %s tile %d: %s", t->worker, t->step, task.op->name, t->tile, task.fault);
  if (fine) store(t, &task);
  arena_reset(&t->own, mark);
  return fine;
}

static void consume(struct mega_thread *t)
{
  const struct mega_plan *p = t->run->p;
  if (!mega_meet_ranks(t, false)) return;
  for (t->step = 0; t->step < t->run->steps; t->step++)
    for (t->node = 0; t->node < p->nnodes; t->node++) {
      struct mega_span s = mega_share(p, t->node, t->worker);
      for (t->tile = s.lo; t->tile < s.hi; t->tile++)
        if (!run_tile(t)) return;
      mega_publish(t);
      t->run->ended[t->worker * p->nnodes + t->node] = s.hi > s.lo ? now_seconds() : 0;
    }
  atomic_fetch_add(&t->run->done, 1);
  mega_meet_ranks(t, true);
}

// ---- threads ----

struct mega_started {
  struct mega_thread thread;
  struct guard *guard;
  struct shortage lack;
  bool short_of_memory;
};

static void work(void *arg)
{
  struct mega_started *s = arg;
  (s->thread.producer ? mega_produce : consume)(&s->thread);
}

static void *begin(void *arg)
{
  struct mega_started *s = arg;
  s->short_of_memory = !guard_run(s->guard, work, s, &s->lack);
  if (s->short_of_memory) mega_stop(&s->thread, false, "no memory");
  return NULL;
}

// Chooses the record of the earliest task that waited, because its wait can never end. A pipeline waits for its consumer.
static void choose_record(const struct mega_started *s, int n, struct mega_answer *out)
{
  const struct mega_thread *first = NULL;
  for (int i = 0; i < n; i++) {
    const struct mega_thread *t = &s[i].thread;
    int nodes = t->run->p->nnodes;
    if (!*t->note) continue;
    int at = t->step * nodes + t->node, best = first ? first->step * nodes + first->node : 0;
    if (!first || (t->producer == first->producer ? at < best : first->producer)) first = t;
  }
  if (first) snprintf(out->record, sizeof out->record, "%s", first->note);
}

static int run_threads(struct mega_started *s, int n, struct err *e)
{
  int alive = 0;
  pthread_t *id = MEM_NEWS(pthread_t, n);
  while (alive < n && !pool_thread(&id[alive], begin, &s[alive])) alive++;
  for (int i = 0; i < n && alive < n; i++) mega_stop(&s[i].thread, false, "only %d of %d threads could be started", alive, n);
  for (int i = 0; i < alive; i++) pthread_join(id[i], NULL);
  mem_free(id);
  for (int i = 0; i < n; i++) arena_close(&s[i].thread.own);
  for (int i = 0; i < n; i++)
    if (s[i].short_of_memory) return mem_error(&s[i].lack, e);
  return OK;
}

// Reports the fault of a rank that ended by itself. A rank that another one stopped reports none.
static int answer_of(struct mega_running *ranks, const struct mega_started *s, int n, struct mega_answer *out, struct err *e)
{
  const struct mega_plan *p = ranks->p;
  *out = *ranks[0].out;
  for (int k = 0; k < p->world.n; k++) {
    const struct mega_answer *a = ranks[k].out;
    if (*a->record && !*out->record) memcpy(out->record, a->record, sizeof out->record);
    out->hung |= a->hung;
    for (int i = 0; i < out->steps * p->m->rows && out->tokens && !*out->record; i++)
      if (a->tokens[i] != out->tokens[i])
        snprintf(out->record, sizeof out->record, "rank %d has a different token than rank 0 in step %d", k, i / p->m->rows);
  }
  if (out->hung) choose_record(s, n, out);
  if (!*out->record) return OK;
  return err_set(e, out->hung ? ERR_HUNG : ERR_WRONG, NOWHERE, "%s", out->record);
}

// ---- memory ----

static int allocate(struct arena *mem, struct mega_running *r, float *const *first, struct err *e)
{
  const struct mega_plan *p = r->p;
  for (int t = 0; t < p->m->ntensors; t++) {
    const struct mega_held *h = &p->held[t];
    struct mega_memory *x = &r->memory[t];
    x->elements = mega_elements(&p->m->tensor[t]);
    int64_t all = x->elements * (p->m->tensor[t].kind == MEGA_ACTIVATION ? h->versions : 1) * mega_slots(p->m, &p->m->tensor[t]);
    if (first[t] && !h->nwrites) {
      x->plain = first[t];
      continue;
    }
    void *room = arena_try(mem, (h->tagged ? sizeof *x->words : sizeof *x->plain) * (size_t)all);
    if (!room) return err_set(e, ERR_MEMORY, NOWHERE, "no memory for %s, %lld elements", p->m->tensor[t].name, (long long)all);
    if (h->tagged)
      x->words = room;
    else
      x->plain = room;
    for (int64_t i = 0; i < all && !h->tagged; i++) x->plain[i] = first[t] ? first[t][i] : __builtin_nanf("");
  }
  return OK;
}

// Sets the sizes of the largest piece and of the largest tile, in elements. A tile takes three times its boxes: a body has spare room of twice their
// size.
static void set_sizes(struct arena *mem, struct mega_running *r)
{
  const struct mega_plan *p = r->p;
  struct mega_region g = {0};
  for (int o = 0; o < p->m->nops; o++) {
    const struct mega_op *op = &p->m->op[o];
    int64_t tile = 0;
    for (int a = 0; a < op->spec.naccess; a++) {
      const struct mega_access *x = &op->spec.access[a];
      const struct mega_tensor *t = &p->m->tensor[op->arg[x->arg]];
      if (any_element(x) && !x->stream) continue;
      g.n = 0;
      mega_region(mem, p->m, op, a, 0, 0, 1, &g);
      if (x->stream)
        r->stage_floats = MAX(r->stage_floats, p->m->stage_bytes / mega_bytes(t->type));
      else
        tile += 3 * mega_volume(x->rank, &g.box[0]) * (x->slots ? p->m->world : 1);
    }
    r->scratch_floats = MAX(r->scratch_floats, tile);
  }
}

static void *cache_lines(struct arena *mem, size_t n)
{
  char *p = arena_alloc(mem, sizeof(struct mega_word) * (n + 1));
  return p + (-(uintptr_t)p & (sizeof(struct mega_word) - 1));
}

static void index_nodes(struct arena *mem, struct mega_running *r)
{
  const struct mega_plan *p = r->p;
  int n = 0;
  r->first_wait = mega_first_waits(mem, p), r->first_event = NEWS(mem, int, p->nnodes + 1), r->events_of = NEWS(mem, int, p->nevents + 1);
  for (int i = 0; i <= p->nnodes; i++) {
    r->first_event[i] = n;
    for (int e = 0; e < p->nevents && i < p->nnodes; e++)
      if (p->event[e].node == i && p->event[e].kind != MEGA_TAGGED) r->events_of[n++] = e;
  }
}

// The end of the pages that the first row of a cache may use. Rows have equal shares.
static int64_t page_end(const struct mega_model *m, const struct mega_op *op, const struct mega_access *x, int d)
{
  return x->dim[d].table + (m->tensor[op->arg[x->arg]].dim[d] - x->dim[d].table) / m->rows;
}

// Checks that every position of the run fits the cache. mega_seats_check checks a cache that requests share.
static int steps_fit(const struct mega_model *m, int steps, struct err *e)
{
  struct arena own = {0};
  struct mega_region now = {0};
  int status = OK;
  for (int o = 0; o < m->nops; o++)
    for (int a = 0; a < m->op[o].spec.naccess; a++) {
      const struct mega_access *x = &m->op[o].spec.access[a];
      now.n = 0;
      mega_region(&own, m, &m->op[o], a, 0, 0, steps - 1, &now);
      for (int d = 0; d < x->rank && status == OK; d++)
        if (x->dim[d].how == MEGA_PAGE_NOW && !m->seat && now.box[0].hi[d] > page_end(m, &m->op[o], x, d))
          status = err_set(e, ERR_MEGA, NOWHERE, "%s has no room for %lld positions", m->tensor[m->op[o].arg[x->arg]].name,
                           (long long)(m->context + steps));
    }
  arena_close(&own);
  return status;
}

// Allocates the memory of one rank.
static int make_rank(struct arena *mem, struct mega_running *r, float *const *first, struct err *e)
{
  const struct mega_plan *p = r->p;
  int workers = p->m->workers;
  index_nodes(mem, r);
  set_sizes(mem, r);
  TRY(allocate(mem, r, first, e));
  r->counter = cache_lines(mem, (size_t)p->nevents), r->flag = cache_lines(mem, (size_t)p->nevents * (size_t)workers);
  r->ring = cache_lines(mem, 3 * (size_t)workers), r->met = cache_lines(mem, 2 * (size_t)p->m->world);
  r->ended = NEWS(mem, double, workers * p->nnodes);
  r->scratch = NEWS(mem, float *, 2 * workers);
  for (int i = 0; i < 2 * workers; i++) {
    r->scratch[i] = NEWS(mem, float, r->scratch_floats + 1);
    if (i % 2) r->ring[i / 2].stage = NEWS(mem, float, r->stage_floats * p->m->stages + 1);
  }
  return OK;
}

int mega_run_open(struct arena *mem, const struct mega_plan *p, float *const *first, struct mega_running **out, struct err *e)
{
  struct mega_running *ranks = *out = NEWS(mem, struct mega_running, p->m->world);
  for (int k = 0; k < p->m->world; k++) {
    ranks[k] = (struct mega_running){.p = p, .rank = k, .ranks = ranks};
    TRY(make_rank(mem, &ranks[k], first + k * p->m->ntensors, e));
  }
  return OK;
}

float *mega_run_tensor(const struct mega_running *r, int tensor) { return r->memory[tensor].plain; }
const double *mega_run_ends(const struct mega_running *r) { return r->ended; }

// Resets epochs, counters, flags and rings before a launch.
static void reset(struct mega_running *r)
{
  const struct mega_plan *p = r->p;
  for (int t = 0; t < p->m->ntensors; t++) {
    int64_t words = r->memory[t].words ? r->memory[t].elements * p->held[t].versions * mega_slots(p->m, &p->m->tensor[t]) : 0;
    for (int64_t i = 0; i < words; i++) atomic_store(&r->memory[t].words[i], 0);
  }
  for (int i = 0; i < p->nevents; i++) atomic_store(&r->counter[i].value, 0);
  for (int i = 0; i < p->nevents * p->m->workers; i++) atomic_store(&r->flag[i].value, 0);
  for (int i = 0; i < p->m->workers; i++) atomic_store(&r->ring[i].filled, 0), atomic_store(&r->ring[i].freed, 0);
  for (int i = 0; i < p->m->workers * p->nnodes; i++) r->ended[i] = 0;
  for (int i = 0; i < 2 * p->m->world; i++) atomic_store(&r->met[i].value, 0);
  atomic_store(&r->stop, 0), atomic_store(&r->recorded, 0), atomic_store(&r->done, 0);
}

static void begin_rank(struct arena *mem, struct mega_running *r, int steps, double deadline)
{
  const struct mega_model *m = r->p->m;
  r->out = NEW(mem, struct mega_answer);
  *r->out = (struct mega_answer){.steps = steps, .output = NEWS(mem, float *, m->ntensors)};
  r->steps = steps, r->deadline = deadline;
  for (int t = 0; t < m->ntensors; t++) {
    if (!r->out->tokens && is_token(&m->tensor[t])) r->out->tokens = NEWS(mem, int32_t, steps * m->rows);
    if (m->tensor[t].kind == MEGA_OUTPUT) r->out->output[t] = r->memory[t].plain;
  }
  reset(r);
}

int mega_run_steps(struct arena *mem, struct mega_running *r, int steps, double deadline, struct mega_answer *out, struct err *e)
{
  const struct mega_plan *p = r->p;
  int each = 2 * p->m->workers, n = p->m->world * each;
  *out = (struct mega_answer){.steps = steps};
  TRY(steps_fit(p->m, steps, e));
  for (int k = 0; k < p->m->world; k++) begin_rank(mem, &r[k], steps, deadline);
  struct mega_started *s = NEWS(mem, struct mega_started, n);
  for (int i = 0; i < n; i++) {
    struct mega_running *own = &r[i / each];
    int at = i % each;
    s[i] = (struct mega_started){.thread = {.run = own, .worker = at / 2, .producer = at % 2, .scratch = own->scratch[at]}, .guard = guard_here()};
  }
  TRY(run_threads(s, n, e));
  return answer_of(r, s, n, out, e);
}

int mega_run(struct arena *mem, const struct mega_plan *p, float *const *first, int steps, double deadline, struct mega_answer *out, struct err *e)
{
  struct mega_running *r;
  TRY(steps_fit(p->m, steps, e));
  TRY(mega_run_open(mem, p, first, &r, e));
  return mega_run_steps(mem, r, steps, deadline, out, e);
}
