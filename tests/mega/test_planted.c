// Planted mistakes: a proved plan is changed in one place, and the proof has to fail in the check that the row names, in words of the row.
#include "megas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// ---- finding places in a plan ----

static bool absent; // what the mistake needs is not in this plan: there the wait follows from others
static struct mega_wait no_wait;

static int op_index(const struct mega_plan *p, const char *op)
{
  int o = mega_op_find(p->m, op);
  assert_true(o >= 0);
  return o;
}

static int node(const struct mega_plan *p, const char *op, int layer)
{
  int o = op_index(p, op);
  for (int n = 0; n < p->nnodes; n++)
    if (p->node[n].op == o && p->node[n].layer == layer) return n;
  fail();
  return -1;
}

static struct mega_held *held(struct mega_plan *p, const char *tensor)
{
  int t = mega_tensor_find(p->m, tensor);
  assert_true(t >= 0);
  return &p->held[t];
}

// The first wait of a node for tiles of another.
static struct mega_wait *wait_for(struct mega_plan *p, int of, int from)
{
  for (int i = 0; i < p->nwaits; i++)
    if (p->wait[i].node == of && p->event[p->wait[i].event].node == from) return &p->wait[i];
  absent = true;
  return &no_wait;
}

static struct mega_event *event_of(struct mega_plan *p, int of, int from) { return &p->event[wait_for(p, of, from)->event]; }

static void remove_waits(struct mega_plan *p, int of, int from)
{
  int n = 0;
  for (int i = 0; i < p->nwaits; i++)
    if (p->wait[i].node != of || p->event[p->wait[i].event].node != from) p->wait[n++] = p->wait[i];
  absent |= n == p->nwaits;
  p->nwaits = n;
}

// Events that nobody waits for any more, so that the row is about order and not about them.
static void remove_idle(struct mega_plan *p)
{
  for (int e = p->nevents - 1; e >= 0; e--) {
    bool used = false;
    for (int i = 0; i < p->nwaits; i++) used |= p->wait[i].event == e;
    if (used) continue;
    memmove(&p->event[e], &p->event[e + 1], sizeof *p->event * (size_t)(p->nevents - e - 1));
    p->nevents--;
    for (int i = 0; i < p->nwaits; i++) p->wait[i].event -= p->wait[i].event > e;
  }
}

static uint16_t *lo(struct mega_plan *p, int n, int w) { return &p->lo[n * p->m->workers + w]; }
static uint16_t *hi(struct mega_plan *p, int n, int w) { return &p->hi[n * p->m->workers + w]; }

// A worker that runs tiles of the node, and not the first of them.
static int busy(struct mega_plan *p, int n)
{
  for (int w = 0; w < p->m->workers; w++)
    if (*lo(p, n, w) > 0 && *hi(p, n, w) > *lo(p, n, w)) return w;
  absent = true;
  return 0;
}

static bool held_back(const struct mega_plan *p)
{
  bool any = false;
  for (int i = 0; i < p->nwaits; i++) any |= p->wait[i].stream;
  return any;
}

static void lose(struct mega_plan *p, const char *op, int layer, const char *from, int from_layer)
{
  remove_waits(p, node(p, op, layer), node(p, from, from_layer));
  remove_idle(p);
}

static void all_of_kind(struct mega_plan *p, void (*f)(struct mega_event *ev))
{
  for (int e = 0; e < p->nevents; e++)
    if (p->event[e].kind != MEGA_TAGGED) f(&p->event[e]);
}
static void no_release(struct mega_event *ev) { ev->release = false; }
static void no_acquire(struct mega_event *ev) { ev->acquire = false; }
static void no_barrier(struct mega_event *ev) { ev->barrier = false; }

static struct mega_access *access_of(struct mega_plan *p, const char *op, int access)
{
  return &((struct mega_model *)p->m)->op[op_index(p, op)].spec.access[access];
}

// ---- mistakes ----

#define PLANT(name) static void name(struct mega_plan *p)
PLANT(tile_not_run) { *lo(p, node(p, "o", 1), busy(p, node(p, "o", 1))) += 1; }
PLANT(tile_run_twice) { *lo(p, node(p, "o", 1), busy(p, node(p, "o", 1))) -= 1; }
PLANT(last_tile_lost) { *hi(p, node(p, "head", 0), busy(p, node(p, "head", 0))) -= 1; }
PLANT(tile_beyond) { *hi(p, node(p, "down", 0), p->m->workers - 1) += 1; }
PLANT(share_upside_down) { *hi(p, node(p, "qkv", 0), 0) = 0, *lo(p, node(p, "qkv", 0), 0) = 2; }
PLANT(writers_overlap) { access_of(p, "o", 3)->dim[1].how = MEGA_WHOLE; }
PLANT(writers_overlap_in_cache) { access_of(p, "append", access_of(p, "append", 2)->out ? 2 : 3)->dim[2].how = MEGA_WHOLE; }
PLANT(write_missing) { ((struct mega_model *)p->m)->op[op_index(p, "gate_up")].parts[0] *= 2; } // parts are narrower, and tiles as many
PLANT(read_beyond) { ((struct mega_model *)p->m)->context = 1000; }
PLANT(word_may_be_torn) { p->whole_words = false; }
PLANT(word_of_odd_size) { held(p, "inner")->word_bytes = 10; }
PLANT(word_cut_by_tiles) { held(p, "h")->word_group *= 3; }
PLANT(state_tagged) { *held(p, "token") = (struct mega_held){1, held(p, "token")->write, 1, true, 8, 1, MEGA_LOAD_WORDS}; }
PLANT(constant_load_of_h) { held(p, "h")->load = MEGA_LOAD_CONST; }
PLANT(constant_load_of_cache) { held(p, "cache")->load = MEGA_LOAD_CONST; }
PLANT(constant_load_of_logits) { held(p, "logits")->load = MEGA_LOAD_CONST; }
PLANT(words_read_plain) { held(p, "qkv")->load = MEGA_LOAD_PLAIN; }
PLANT(plain_read_as_words) { held(p, "logits")->load = MEGA_LOAD_WORDS; }
PLANT(count_too_large) { event_of(p, node(p, "attend", 1), node(p, "append", 1))->count += 1; }
PLANT(count_too_small) { event_of(p, node(p, "largest", 0), node(p, "head", 0))->count -= 1; }
PLANT(count_of_words_wrong) { event_of(p, node(p, "down", 0), node(p, "gate_up", 0))->count -= 1; }
PLANT(publisher_missing)
{
  struct mega_event *ev = event_of(p, node(p, "gate_up", 1), node(p, "o", 1));
  ev->span[ev->nspans - 1].hi--;
}
PLANT(publisher_of_no_tile)
{
  struct mega_event *ev = event_of(p, node(p, "gate_up", 1), node(p, "o", 1));
  ev->span[ev->nspans - 1].hi += 5000;
}
PLANT(nobody_waits) { remove_waits(p, node(p, "embed", 0), node(p, "next", 0)); }
PLANT(wait_for_no_event) { wait_for(p, node(p, "o", 0), node(p, "attend", 0))->event = p->nevents + 3; }
PLANT(wait_of_no_tile) { wait_for(p, node(p, "o", 0), node(p, "attend", 0))->hi = 60000; }
PLANT(stale_epoch_of_step) { wait_for(p, node(p, "attend", 1), node(p, "append", 1))->back = 1; }
PLANT(stale_epoch_of_words) { wait_for(p, node(p, "gate_up", 1), node(p, "o", 1))->write -= 1; }
PLANT(epoch_of_no_write) { wait_for(p, node(p, "down", 1), node(p, "gate_up", 1))->write = 99; }
PLANT(epoch_too_early) { wait_for(p, node(p, "embed", 0), node(p, "next", 0))->back = 0; }
PLANT(wait_for_another_tensor) { event_of(p, node(p, "down", 1), node(p, "gate_up", 1))->tensor = mega_tensor_find(p->m, "attended"); }
PLANT(cycle_through_pipeline) // weights of down before those of gate_up fill all stages
{
  int a = node(p, "gate_up", 0), b = node(p, "down", 0);
  absent = p->m->workers > 5; // of more, none has tiles of both
  p->pipe[a] = b, p->pipe[b] = a;
}
PLANT(cycle_of_layers_in_pipeline)
{
  int a = node(p, "qkv", 0), b = node(p, "qkv", 1);
  absent = p->m->workers > 20;
  p->pipe[a] = b, p->pipe[b] = a;
}
PLANT(pipeline_backwards)
{
  for (int n = 0; n < p->nnodes; n++) p->pipe[n] = p->nnodes - 1 - n;
}
PLANT(event_missing_down_qkv) { lose(p, "qkv", 1, "down", 0); }
PLANT(event_missing_embed_qkv) { lose(p, "qkv", 0, "embed", 0); }
PLANT(event_missing_qkv_attend) { lose(p, "attend", 0, "qkv", 0); }
PLANT(event_missing_append_attend) { lose(p, "attend", 1, "append", 1); }
PLANT(event_missing_attend_o) { lose(p, "o", 1, "attend", 1); }
PLANT(event_missing_gate_up_down) { lose(p, "down", 1, "gate_up", 1); }
PLANT(event_missing_head) { lose(p, "head", 0, "down", 1); }
PLANT(event_missing_largest) { lose(p, "largest", 0, "head", 0); }
PLANT(event_missing_next) { lose(p, "next", 0, "largest", 0); }
PLANT(event_missing_token) { lose(p, "embed", 0, "next", 0); }
PLANT(one_tile_does_not_wait) { wait_for(p, node(p, "o", 1), node(p, "attend", 1))->lo += 1; }
PLANT(one_tile_publishes_nothing)
{
  struct mega_event *ev = event_of(p, node(p, "gate_up", 1), node(p, "o", 1));
  ev->span[ev->nspans - 1].hi--, ev->count--;
}
PLANT(release_missing) { all_of_kind(p, no_release); }
PLANT(acquire_missing) { all_of_kind(p, no_acquire); }
PLANT(barrier_missing) { all_of_kind(p, no_barrier); }
PLANT(wait_at_the_pipeline_only)
{
  struct mega_wait *x = wait_for(p, node(p, "attend", 0), node(p, "append", 0));
  x->stream = true, x->back = 1;
}
PLANT(pipeline_not_held_back)
{
  int n = 0;
  absent = !held_back(p);
  for (int i = 0; i < p->nwaits; i++)
    if (!p->wait[i].stream) p->wait[n++] = p->wait[i];
  p->nwaits = n;
}
PLANT(too_few_versions_of_h) { absent = held(p, "h")->versions-- == 1; }
PLANT(too_few_versions_of_qkv) { absent = held(p, "qkv")->versions-- == 1; }
PLANT(no_version) { held(p, "inner")->versions = 0; }
PLANT(more_versions_than_writes) { held(p, "inner")->versions = 3; }
PLANT(reuse_of_token) { lose(p, "next", 0, "embed", 0); }
PLANT(reuse_of_logits) { lose(p, "head", 0, "largest", 0); }
PLANT(fence_missing)
{
  absent = held_back(p); // producers that wait have fences of their own
  for (int n = 0; n < p->nnodes; n++) p->fence[n] = false;
}
PLANT(copied_without_fence)
{
  absent = held(p, "h")->load != MEGA_LOAD_BULK;
  p->fence[node(p, "gate_up", 0)] = p->fence[node(p, "gate_up", 1)] = false; // those of an operator are one in the emitted text
}

// In a plan whose attention is in parts.
PLANT(part_divisors_not_awaited)
{
  int n = 0, divisor = mega_tensor_find(p->m, "divisor");
  for (int i = 0; i < p->nwaits; i++)
    if (p->wait[i].node != node(p, "o", 1) || p->event[p->wait[i].event].tensor != divisor) p->wait[n++] = p->wait[i];
  absent = n == p->nwaits, p->nwaits = n;
  remove_idle(p);
}
PLANT(part_written_twice) { access_of(p, "attend", 4)->dim[1].how = MEGA_WHOLE; }
PLANT(part_copied_too_early) { pipeline_not_held_back(p), remove_idle(p); }
PLANT(part_of_too_few_versions) { absent = held(p, "attended")->versions-- == 1; }

// In plans in which an operator merges the parts of attention.
static void lose_tensor(struct mega_plan *p, const char *op, const char *tensor)
{
  int n = 0, of = mega_tensor_find(p->m, tensor);
  for (int i = 0; i < p->nwaits; i++)
    if (p->wait[i].node != node(p, op, 1) || p->event[p->wait[i].event].tensor != of) p->wait[n++] = p->wait[i];
  absent = n == p->nwaits, p->nwaits = n;
  remove_idle(p);
}
PLANT(merge_sums_not_awaited) { lose_tensor(p, "merge", "partial"); }
PLANT(merge_divisors_not_awaited) { lose_tensor(p, "merge", "divisor"); }
PLANT(merge_misses_a_part)
{
  for (int i = 0; i < p->nwaits; i++) {
    struct mega_event *ev = &p->event[p->wait[i].event];
    if (p->wait[i].node == node(p, "merge", 1) && ev->node == node(p, "attend", 1)) ev->span[0].hi--, ev->count = mega_event_count(p, ev);
  }
}
PLANT(merge_not_awaited) { lose(p, "o", 1, "merge", 1); }
PLANT(merge_of_layer_before) { wait_for(p, node(p, "merge", 1), node(p, "attend", 1))->write -= 1; }
PLANT(merge_of_step_before) { wait_for(p, node(p, "merge", 1), node(p, "attend", 1))->back = 1; }
PLANT(merge_written_twice) { access_of(p, "merge", 2)->dim[1].how = MEGA_WHOLE; }
PLANT(merge_tile_not_run) { *lo(p, node(p, "merge", 1), busy(p, node(p, "merge", 1))) += 1; }
PLANT(merge_cuts_a_word) { held(p, "partial")->word_group *= 3; }
PLANT(merge_reads_words_plain) { held(p, "partial")->load = MEGA_LOAD_PLAIN; }
PLANT(merge_in_too_few_versions) { absent = held(p, "partial")->versions-- == 1; }
PLANT(merge_before_append) { lose(p, "append", 1, "qkv", 1); }

// In plans with experts.
static struct mega_wait *pipeline_wait(struct mega_plan *p, const char *op, int layer)
{
  for (int i = 0; i < p->nwaits; i++)
    if (p->wait[i].node == node(p, op, layer) && p->wait[i].stream) return &p->wait[i];
  absent = true;
  return &no_wait;
}
static void drop_pipeline_waits(struct mega_plan *p, const char *op, int layer)
{
  int n = 0, of = node(p, op, layer);
  for (int i = 0; i < p->nwaits; i++)
    if (p->wait[i].node != of || !p->wait[i].stream) p->wait[n++] = p->wait[i];
  absent = n == p->nwaits, p->nwaits = n;
}
PLANT(experts_fetched_before_router) { drop_pipeline_waits(p, "gate_up", 1); }
PLANT(experts_down_fetched_before_router) { drop_pipeline_waits(p, "down", 0); }
PLANT(experts_awaited_by_consumers_only) { pipeline_wait(p, "gate_up", 0)->stream = false; }
PLANT(experts_one_tile_fetched_early) { pipeline_wait(p, "gate_up", 0)->lo += 1; }
PLANT(experts_of_step_before) { pipeline_wait(p, "gate_up", 0)->back = 1; }
PLANT(experts_of_layer_before)
{
  struct mega_wait *x = pipeline_wait(p, "gate_up", 1), *before = pipeline_wait(p, "gate_up", 0);
  x->event = before->event, x->write = before->write;
}
PLANT(experts_of_another_write) { pipeline_wait(p, "down", 1)->write -= 1; }
PLANT(experts_ahead_of_router_in_pipeline)
{
  int a = node(p, "router", 0), b = node(p, "gate_up", 0);
  p->pipe[a] = b, p->pipe[b] = a;
}
PLANT(experts_event_missing_router_choose) { lose(p, "choose", 1, "router", 1); }
PLANT(experts_too_few_versions_of_chosen) { absent = held(p, "chosen")->versions-- == 1; }
PLANT(experts_choice_written_twice) { access_of(p, "choose", 1)->dim[0].how = MEGA_WHOLE, absent = p->m->rows == 1; }

// In the order of a step, in lists of the plan, and in kinds.
PLANT(wait_upside_down)
{
  struct mega_wait *x = wait_for(p, node(p, "o", 0), node(p, "attend", 0));
  x->lo = x->hi + 1;
}
PLANT(pipeline_forgets_a_node) { p->pipe[node(p, "qkv", 0)] = p->pipe[node(p, "qkv", 1)]; }
PLANT(pipeline_of_no_node) { p->pipe[node(p, "qkv", 1)] = p->nnodes; }
PLANT(wait_for_itself)
{
  int at = node(p, "attend", 1);
  struct mega_wait *x = wait_for(p, at, node(p, "append", 1)), *own = wait_for(p, node(p, "o", 1), at);
  if (!absent) x->event = own->event, x->write = own->write, remove_idle(p);
}
PLANT(layer_run_twice) { p->node[node(p, "gate_up", 1)].layer = 0; }
PLANT(nodes_exchanged)
{
  int a = node(p, "gate_up", 0), b = node(p, "down", 0);
  struct mega_node x = p->node[a];
  p->node[a] = p->node[b], p->node[b] = x;
}
PLANT(writes_exchanged)
{
  int *w = held(p, "h")->write, x = w[0];
  w[0] = w[1], w[1] = x;
}
PLANT(write_not_listed) { held(p, "h")->nwrites--; }
PLANT(word_of_no_values) { held(p, "h")->word_group = 0; }
PLANT(layer_of_weights_beyond) { ((struct mega_model *)p->m)->op[op_index(p, "o")].repeat = 3, p->node[node(p, "o", 1)].layer = 2; }
PLANT(step_before_the_last) { wait_for(p, node(p, "embed", 0), node(p, "next", 0))->back = 2; }
PLANT(negative_step) { wait_for(p, node(p, "attend", 1), node(p, "append", 1))->back = -1; }

static const struct planted {
  const char *name;
  void (*plant)(struct mega_plan *p);
  enum mega_check check;
  const char *says; // a part of the first fault
} mistakes[] = {
#define ROW(name, check, says)            \
  {                                       \
#name, name, MEGA_CHECK_##check, says \
  }
    ROW(tile_not_run, SCHEDULE, "o[1] tile"),
    ROW(tile_run_twice, SCHEDULE, "is run by 2 workers"),
    ROW(last_tile_lost, SCHEDULE, "head tile"),
    ROW(tile_beyond, SCHEDULE, "down[0]"),
    ROW(share_upside_down, SCHEDULE, "qkv[0]"),
    ROW(writers_overlap, REGIONS, "which tile 0 writes too"),
    ROW(writers_overlap_in_cache, REGIONS, "append[0] tile 1"),
    ROW(write_missing, REGIONS, "no tile writes element"),
    ROW(read_beyond, REGIONS, "of cache"),
    ROW(word_may_be_torn, WORDS, "may tear"),
    ROW(word_of_odd_size, WORDS, "10 bytes"),
    ROW(word_cut_by_tiles, WORDS, "a word holds 3"),
    ROW(no_version, WORDS, "inner has 0 versions"),
    ROW(more_versions_than_writes, WORDS, "but 2 writes in each step"),
    ROW(state_tagged, WORDS, "token is tagged"),
    ROW(constant_load_of_h, LOADS, "reads h by constant loads"),
    ROW(constant_load_of_cache, LOADS, "cache"),
    ROW(constant_load_of_logits, LOADS, "logits"),
    ROW(words_read_plain, LOADS, "without its epochs"),
    ROW(plain_read_as_words, LOADS, "but it has none"),
    ROW(count_too_large, COUNTS, "append[1], event"),
    ROW(count_too_small, COUNTS, "are published"),
    ROW(count_of_words_wrong, COUNTS, "gate_up[0]"),
    ROW(publisher_missing, COUNTS, "o[1], event"),
    ROW(publisher_of_no_tile, COUNTS, "not ascending tiles of the node"),
    ROW(nobody_waits, COUNTS, "no tile waits for it"),
    ROW(wait_for_no_event, COUNTS, "ill-formed"),
    ROW(wait_of_no_tile, COUNTS, "o[0] tile 0"),
    ROW(stale_epoch_of_step, EPOCHS, "attend[1] tile"),
    ROW(stale_epoch_of_words, EPOCHS, "write"),
    ROW(epoch_of_no_write, EPOCHS, "write 99 of inner"),
    ROW(epoch_too_early, EPOCHS, "embed tile 0"),
    ROW(wait_for_another_tensor, EPOCHS, "attended, which it does not read"),
    ROW(cycle_through_pipeline, DEADLOCK, "waits for"),
    ROW(cycle_of_layers_in_pipeline, DEADLOCK, "waits for"),
    ROW(pipeline_backwards, DEADLOCK, "waits for"),
    ROW(event_missing_down_qkv, ORDER, "qkv[1] tile 0: reads h"),
    ROW(event_missing_embed_qkv, ORDER, "embed"),
    ROW(event_missing_qkv_attend, ORDER, "attend[0]"),
    ROW(event_missing_append_attend, ORDER, "reads cache"),
    ROW(event_missing_attend_o, ORDER, "reads attended"),
    ROW(event_missing_gate_up_down, ORDER, "inner"),
    ROW(event_missing_head, ORDER, "head tile"),
    ROW(event_missing_largest, ORDER, "logits"),
    ROW(event_missing_next, ORDER, "best"),
    ROW(event_missing_token, ORDER, "token"),
    ROW(one_tile_does_not_wait, ORDER, "o[1] tile 0"),
    ROW(one_tile_publishes_nothing, ORDER, "gate_up[1]"),
    ROW(release_missing, ORDER, "no event orders this"),
    ROW(acquire_missing, ORDER, "no event orders this"),
    ROW(barrier_missing, ORDER, "no event orders this"),
    ROW(wait_at_the_pipeline_only, ORDER, "attend[0]"),
    ROW(too_few_versions_of_h, REUSE, "overwrites h"),
    ROW(too_few_versions_of_qkv, REUSE, "overwrites qkv"),
    ROW(reuse_of_token, REUSE, "overwrites token"),
    ROW(reuse_of_logits, REUSE, "overwrites logits"),
    ROW(fence_missing, FENCE, "without a proxy fence"),
    ROW(copied_without_fence, FENCE, "gate_up[0]: copies h, which threads wrote, without"),
    ROW(pipeline_not_held_back, FENCE, "may copy cache before"),
    ROW(part_divisors_not_awaited, ORDER, "reads divisor"),
    ROW(part_written_twice, REGIONS, "attend[0] tile"),
    ROW(part_copied_too_early, FENCE, "may copy cache before"),
    ROW(part_of_too_few_versions, REUSE, "overwrites attended"),
    ROW(merge_sums_not_awaited, ORDER, "reads partial, but no event"),
    ROW(merge_divisors_not_awaited, ORDER, "reads divisor, but no event"),
    ROW(merge_misses_a_part, ORDER, "merge[1] tile"),
    ROW(merge_not_awaited, ORDER, "o[1] tile 0: reads attended"),
    ROW(merge_of_layer_before, EPOCHS, "waits for write 0 of"),
    ROW(merge_of_step_before, EPOCHS, "merge[1] tile 0, event"),
    ROW(merge_written_twice, REGIONS, "merge[0] tile"),
    ROW(merge_tile_not_run, SCHEDULE, "merge[1] tile"),
    ROW(merge_cuts_a_word, WORDS, "a word holds 3"),
    ROW(merge_reads_words_plain, LOADS, "reads partial without its epochs"),
    ROW(merge_in_too_few_versions, REUSE, "overwrites partial"),
    ROW(merge_before_append, ORDER, "append[1] tile 0: reads qkv"),
    ROW(experts_fetched_before_router, ORDER, "the pipeline may request Wgate_up before tile 0 of choose[1] has written chosen"),
    ROW(experts_down_fetched_before_router, ORDER, "the pipeline may request Wdown before tile 0 of choose[0]"),
    ROW(experts_awaited_by_consumers_only, ORDER, "gate_up[0] tile 0: the pipeline may request Wgate_up"),
    ROW(experts_one_tile_fetched_early, ORDER, "gate_up[0] tile 0: the pipeline may request Wgate_up"),
    ROW(experts_of_step_before, EPOCHS, "gate_up[0] tile 0, event"),
    ROW(experts_of_layer_before, ORDER, "of choose[1] has written chosen"),
    ROW(experts_of_another_write, EPOCHS, "of chosen, but the event follows another"),
    ROW(experts_ahead_of_router_in_pipeline, DEADLOCK, "waits for"),
    ROW(experts_event_missing_router_choose, ORDER, "reads scores"),
    ROW(experts_too_few_versions_of_chosen, REUSE, "overwrites chosen"),
    ROW(experts_choice_written_twice, REGIONS, "choose[0] tile 1: writes element"),
    ROW(wait_upside_down, COUNTS, "is ill-formed"),
    ROW(pipeline_forgets_a_node, SCHEDULE, "qkv[1]: the pipeline order names it twice"),
    ROW(pipeline_of_no_node, SCHEDULE, "the pipeline order names node"),
    ROW(wait_for_itself, EPOCHS, "attend[1] tile 0, event"),
    ROW(layer_run_twice, SCHEDULE, "gate_up[0]: is in the place of gate_up[1]"),
    ROW(nodes_exchanged, SCHEDULE, "down[0]: is in the place of"),
    ROW(writes_exchanged, EPOCHS, "waits for write 0 of h"),
    ROW(write_not_listed, EPOCHS, "head tile 0, event"),
    ROW(word_of_no_values, WORDS, "words of h do not have"),
    ROW(layer_of_weights_beyond, SCHEDULE, "o[2]: is in the place of"),
    ROW(step_before_the_last, EPOCHS, "of 2 steps before"),
    ROW(negative_step, COUNTS, "is ill-formed"),
#undef ROW
};

// Plans in which each mistake is planted: tagged data, and counters and flags.
static const char *const bases[] = {"tests/mega/split_few.mega",   "tests/mega/split_rows.mega",  "tests/mega/split_many.mega",
                                    "tests/mega/split_parts.mega", "tests/mega/split_merge.mega", "tests/mega/split_merge_rows.mega",
                                    "tests/mega/experts_few.mega", "tests/mega/experts_rows.mega"};

// Some mistakes need attention in parts, or parts that an operator merges, or experts. Rows: the first letters of their names, and their plans.
static const struct planted_in {
  const char *letters;
  int first, end;
} plans_of[] = {{"part_", 3, 4}, {"merge_", 4, 6}, {"experts_", 6, 8}, {"", 0, 3}};
static const struct planted_in *plans_for(const char *name)
{
  const struct planted_in *x = plans_of;
  while (strncmp(name, x->letters, strlen(x->letters))) x++;
  return x;
}

static bool tagged(const struct planted *x)
{
  static const char *const names[] = {"word_may_be_torn", "word_of_odd_size", "word_cut_by_tiles", "words_read_plain", "word_of_no_values"};
  for (size_t i = 0; i < COUNT(names); i++)
    if (!strcmp(names[i], x->name)) return true;
  return false;
}

enum answer { ABSENT, FOUND, MISSED };
static enum answer try_one(const struct planted *x, int base)
{
  struct megas m;
  struct mega_proof proof;
  struct mega_sizes as_stated = {.context = -1};
  mega_open(&m, bases[base], &as_stated);
  if (mega_prove(m.p, &proof, &m.err) != OK) fail_msg("plan %d: %s", base, m.err.text);
  absent = tagged(x) && !held(m.p, "h")->tagged;
  x->plant(m.p);
  int status = absent ? OK : mega_prove(m.p, &proof, &m.err);
  bool right = status == NO && proof.fault[0].check == x->check && strstr(proof.fault[0].text, x->says);
  if (!right && !absent) {
    print_error("%s in plan %d: wanted %s, `%s`; ", x->name, base, mega_checks[x->check].name, x->says);
    print_error("got %s: %s\n", status == NO ? mega_checks[proof.fault[0].check].name : "no fault", status == NO ? proof.fault[0].text : "");
  }
  mega_close(&m);
  return right ? FOUND : absent ? ABSENT : MISSED;
}

static void all_are_found(void **state)
{
  int missed = 0, n = 0;
  (void)state;
  for (size_t i = 0; i < COUNT(mistakes); i++) {
    int planted = 0;
    const struct planted_in *in = plans_for(mistakes[i].name);
    for (int base = in->first; base < in->end; base++) {
      enum answer a = try_one(&mistakes[i], base);
      planted += a != ABSENT, missed += a == MISSED;
    }
    if (!planted) print_error("%s is in no plan\n", mistakes[i].name), missed++;
    n += planted;
  }
  print_message("%d of %d planted mistakes are found, of %zu kinds\n", n - missed, n, COUNT(mistakes));
  assert_int_equal(missed, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_are_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
