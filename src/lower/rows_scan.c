// Scans of rows.h. A thread adds up the vector of each register. Lanes add the totals of earlier lanes by shuffles, and a chain over registers adds
// the totals of the warp's lanes. Totals of warps go through shared memory, totals of a cluster's blocks through that of every block. A round begins
// with the total of earlier rounds, the carry. If a thread has the axis alone, it adds element by element.
#include "lower/rows.h"

struct row_scanning {
  struct row_text *x;
  int value, axis, along; // elements of a vector along the axis
  axis_set axes;
  bool rounds, others; // others: totals of other warps or blocks precede
  const struct hole *holes;
};

static struct row_scanning scanning(struct row_text *x, int value)
{
  const struct row_plan *p = x->p;
  const struct kern_value *v = &p->r->k.v[value];
  const int a = __builtin_ctzll(v->folded);
  struct row_scanning s = {.x = x, .value = value, .axis = a, .along = row_vec(p, a), .axes = v->axes};
  s.rounds = v->folded & p->rounds, s.others = row_is_shared(p, value) || p->warps[a] > 1;
  s.holes = KEPT_HOLES(x->mem, NULL, INT(v, value), INT(a, a), STR(dims, row_dims(x, v->axes, row_has_vec(x, v->axes))),
                       STR(totals, row_dims(x, v->axes, row_has_vec(x, row_result(v)))),
                       STR(kept, row_dims(x, row_result(v), row_has_vec(x, row_result(v)))), INT(carried, s.rounds && !s.others));
  return s;
}

// The vector width of a total: that of another axis, or 1.
static int width_of(const struct row_scanning *s) { return row_has_vec(s->x, s->axes & ~AXIS(s->axis)) ? s->x->p->vec : 1; }
static const char *place_of(const struct row_scanning *s) { return row_at(s->x, s->axes & ~AXIS(s->axis), width_of(s), "0"); }

void row_scan_carries(struct row_text *x, const bool *want)
{
  for (int i = 0; i < x->p->r->k.nvalues; i++) {
    const struct kern_value *v = &x->p->r->k.v[i];
    if (!want[i] || !kern_scans(v) || !(v->folded & x->p->rounds)) continue;
    text_fill(&x->t, x->carried[i] ? "%carry$v <- Init<0.0>()" : "%carry$v:[$kept].fp32.RF <- Init<0.0>()", scanning(x, i).holes);
    x->carried[i] = true;
  }
}

static void begin_chain(const struct row_scanning *s)
{
  text_fill(&s->x->t, "?carried %upto$v:[$kept].fp32.RF <- Move(%carry$v)\n?!carried %upto$v:[$kept].fp32.RF <- Init<0.0>()", s->holes);
}

static void element_by_element(const struct row_scanning *s)
{
  begin_chain(s);
  TEXT_SCOPE(&s->x->t);
  row_each_open(s->x, s->axes, "");
  text_fill(&s->x->t, "%v$v$at <- BinaryPointwise<+>(%v$v$at, %upto$v$place)\n%upto$v$place <- Move(%v$v$at)",
            HOLES(s->holes, STR(at, row_at(s->x, s->axes, width_of(s), "0")), STR(place, place_of(s))));
}

// ---- over lanes ----

// The distance in lanes between neighbours along the axis.
static int lane_stride(const struct row_plan *p, int axis)
{
  const int order[] = {p->role.across, p->role.down, p->role.join};
  int n = 1;
  for (size_t i = 0; i < COUNT(order) && order[i] != axis; i++)
    if (order[i] >= 0) n *= p->lanes[order[i]];
  return n;
}

// The number in its warp of the last lane along the axis, with the executing lane's other coordinates.
static const char *last_lane(const struct row_scanning *s)
{
  const struct row_plan *p = s->x->p;
  const int order[] = {p->role.across, p->role.down, p->role.join};
  const char *sum = arena_printf(s->x->mem, "%d", (p->lanes[s->axis] - 1) * lane_stride(p, s->axis));
  for (size_t i = 0; i < COUNT(order); i++)
    if (order[i] >= 0 && order[i] != s->axis && p->lanes[order[i]] > 1) sum = row_thread_term(s->x, sum, 'l', order[i], lane_stride(p, order[i]));
  return sum;
}

static void vectors(const struct row_scanning *s)
{
  struct text *t = &s->x->t;
  TEXT_SCOPE(t);
  int indent = t->indent;
  row_each_open(s->x, s->axes, "");
  text_begin(t, "each e:$n", HOLES(NULL, INT(n, s->along - 1)));
  text_fill(t, "%v$v$next <- BinaryPointwise<+>(%v$v$next, %v$v$at)",
            HOLES(s->holes, STR(next, row_at(s->x, s->axes, 1, "e + 1")), STR(at, row_at(s->x, s->axes, 1, "e"))));
  text_until(t, indent);
  row_each_open(s->x, s->axes, "");
  text_fill(
      t, "%total$v$to <- Move(%v$v$last)",
      HOLES(s->holes, STR(to, row_at(s->x, s->axes, 1, "0")), STR(last, row_at(s->x, s->axes, 1, arena_printf(s->x->mem, "%d", s->along - 1)))));
}

// totals: prefix sums over lanes, including this lane; less: without it; last: the sum over all lanes.
static void over_lanes(const struct row_scanning *s)
{
  const int lanes = s->x->p->lanes[s->axis], stride = lane_stride(s->x->p, s->axis);
  struct text *t = &s->x->t;
  text_fill(t, "%less$v:[$totals].fp32.RF\n%last$v:[$totals].fp32.RF", s->holes);
  for (int d = 1; d < lanes; d *= 2) {
    TEXT_SCOPE(t);
    text_fill(t, "%less$v <- Shfl<up, $by>#warp(%total$v)", HOLES(s->holes, INT(by, d * stride)));
    text_open(t, "if (@l%d >= %d) {", s->axis, d);
    text_fill(t, "%total$v <- BinaryPointwise<+>(%total$v, %less$v)", s->holes);
  }
  text_fill(t,
            "?!lanes %less$v <- Init<0.0>()\n"
            "?!lanes %last$v <- Move(%total$v)\n"
            "?lanes %last$v <- Shfl<idx, $number>#warp(%total$v)\n"
            "?lanes %less$v <- Shfl<up, $by>#warp(%total$v)\n"
            "?lanes if (@l$a == 0) {\n"
            "?lanes %less$v <- Init<0.0>()",
            HOLES(s->holes, INT(lanes, lanes > 1), INT(by, stride), STR(number, last_lane(s))));
}

// Vectors along the axis: the total before each vector is kept and added to its elements at the end.
static void vectors_by_lanes(const struct row_scanning *s)
{
  text_fill(&s->x->t, "%total$v:[$totals].fp32.RF", s->holes);
  vectors(s);
  over_lanes(s);
  begin_chain(s);
  TEXT_SCOPE(&s->x->t);
  row_each_open(s->x, s->axes, "");
  text_fill(&s->x->t, "%less$v$at <- BinaryPointwise<+>(%less$v$at, %upto$v$place)\n%upto$v$place <- BinaryPointwise<+>(%upto$v$place, %last$v$at)",
            HOLES(s->holes, STR(at, row_at(s->x, s->axes, width_of(s), "0")), STR(place, place_of(s))));
}

// Single elements along the axis: totals are computed register by register, so that few registers hold them.
static void elements_by_lanes(struct row_scanning s)
{
  begin_chain(&s);
  s.holes =
      HOLES(s.holes, STR(totals, row_dims(s.x, 0, width_of(&s) > 1)), STR(at, row_at(s.x, s.axes, width_of(&s), "0")), STR(place, place_of(&s)));
  TEXT_SCOPE(&s.x->t);
  row_each_open(s.x, s.axes, "");
  text_fill(&s.x->t, "%total$v:[$totals].fp32.RF <- Move(%v$v$at)", s.holes);
  over_lanes(&s);
  text_fill(&s.x->t,
            "%less$v <- BinaryPointwise<+>(%less$v, %upto$v$place)\n"
            "%v$v$at <- BinaryPointwise<+>(%v$v$at, %less$v)\n"
            "%upto$v$place <- BinaryPointwise<+>(%upto$v$place, %last$v)",
            s.holes);
}

// ---- over warps and blocks ----

// Adds the parts of earlier threads to `before`, and all parts to `all`.
static void receive(const struct row_scanning *s, const struct row_exchange *e)
{
  const struct hole *holes = HOLES(row_part_holes(s->x, e), STR(places, row_zeros(s->x) + 2));
  text_fill(&s->x->t,
            "?scalar %parts$sh:[$dims,$parts].fp32.RF <- Move(%sh$sh.tile([1, $parts])[$at, 0])\n"
            "%part$sh:[$dims].fp32.RF",
            holes);
  text_fill(&s->x->t,
            "each w:$parts\n"
            "?scalar %part$sh <- Move(%parts$sh[$places, w])\n"
            "?!scalar %part$sh <- Move(%sh$sh.tile([1,$dims])[w * $kept + $at$zeros])\n"
            "%all$v <- BinaryPointwise<+>(%all$v, %part$sh)\n"
            "if (w < $part) {\n"
            "%before$v <- BinaryPointwise<+>(%before$v, %part$sh)",
            holes);
}

static void over_parts(const struct row_scanning *s, bool blocks, bool again)
{
  struct row_exchange e = row_exchange_of(s->x, s->value, blocks);
  if (e.parts == 1) return;
  row_hand_over(s->x, 1, &e);
  text_about(&s->x->t, s->x->p->r->k.v[s->value].about);
  receive(s, &e);
  if (again) text_line(&s->x->t, "Sync<barrier>#%s()", s->x->team);
  if (!blocks) text_fill(&s->x->t, "%upto$v <- Move(%all$v)", s->holes);
}

static void over_others(const struct row_scanning *s, bool again)
{
  text_fill(&s->x->t,
            "?rounds %before$v:[$kept].fp32.RF <- Move(%carry$v)\n"
            "?!rounds %before$v:[$kept].fp32.RF <- Init<0.0>()\n"
            "%all$v:[$kept].fp32.RF <- Init<0.0>()",
            HOLES(s->holes, INT(rounds, s->rounds)));
  over_parts(s, false, again);
  over_parts(s, true, false);
}

void row_scan(struct row_text *x, int value, bool again)
{
  const struct row_scanning s = scanning(x, value);
  const char *in = row_name(x, x->p->r->k.v[value].in[0]);
  const bool apart = s.along > 1;
  text_about(&x->t, x->p->r->k.v[value].about);
  text_fill(&x->t, "%v$v:[$dims].fp32.RF <- Move(%$in)", HOLES(s.holes, STR(in, in)));
  if (apart)
    vectors_by_lanes(&s);
  else if (x->p->lanes[s.axis] > 1)
    elements_by_lanes(s);
  else
    element_by_element(&s);
  if (s.others) over_others(&s, again);
  text_fill(&x->t,
            "?others ?apart %less$v <- BinaryPointwise<+>(%less$v, %before$v)\n"
            "?others ?!apart %v$v <- BinaryPointwise<+>(%v$v, %before$v)\n"
            "?apart %v$v <- BinaryPointwise<+>(%v$v, %less$v)\n"
            "?rounds ?others %carry$v <- BinaryPointwise<+>(%carry$v, %all$v)\n"
            "?rounds ?!others %carry$v <- Move(%upto$v)",
            HOLES(s.holes, INT(others, s.others), INT(apart, apart), INT(rounds, s.rounds)));
  text_about(&x->t, 0);
}
