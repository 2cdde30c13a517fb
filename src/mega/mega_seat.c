// Seats: the places of rows in a step that serves requests. They determine the regions of a served cache. mega_seats_check decides whether a proof
// covers the given seats. mega_seats_sample makes the seats for which a proof is repeated.
#include "mega/mega.h"

#include <stdlib.h>

bool mega_served(const struct mega_model *m)
{
  for (int o = 0; o < m->nops; o++)
    if (mega_paged(m, &m->op[o], true)) return true;
  return false;
}

int64_t mega_pages_of(const struct mega_model *m, int64_t *slots)
{
  int64_t pages = 0;
  *slots = 0;
  for (int o = 0; o < m->nops && !pages; o++)
    for (int a = 0; a < m->op[o].spec.naccess && !pages; a++) {
      const struct mega_access *x = &m->op[o].spec.access[a];
      const struct mega_tensor *t = &m->tensor[m->op[o].arg[x->arg]];
      for (int d = 0; d < x->rank; d++) {
        if (x->dim[d].table) pages = t->dim[d];
        if (x->dim[d].how == MEGA_SLOT_NOW || x->dim[d].how == MEGA_SLOT_PAST) *slots = t->dim[d];
      }
    }
  return pages;
}

struct mega_seat mega_seat_of(const struct mega_model *m, int row, int64_t step)
{
  struct mega_seat s = m->seat ? m->seat[row] : (struct mega_seat){.live = true, .moves = true, .position = m->context, .past = m->context};
  if (!s.live || (step && !s.moves)) return (struct mega_seat){.position = row};
  s.position += step, s.past += step;
  return s;
}

// ---- the order of attention's tiles ----

bool mega_ordered(const struct mega_model *m, const struct mega_op *op)
{
  for (int a = 0; a < op->spec.naccess; a++)
    for (int d = 0; d < op->spec.access[a].rank && op->spec.access[a].stream; d++)
      if (op->spec.access[a].dim[d].table) return m->rows > 1;
  return false;
}

struct seat_work { // of a tile
  int64_t positions;
  int tile;
};

static int longer_first(const void *a, const void *b)
{
  const struct seat_work *x = a, *y = b;
  return x->positions != y->positions ? (x->positions < y->positions ? 1 : -1) : x->tile - y->tile;
}

// Sorts tiles by length and divides them into as many groups as a worker has tiles. Neighbours in the order are one tile of each group. Every second
// group is reversed, so that the neighbours add up to nearly equal lengths.
void mega_order_make(struct arena *mem, const struct mega_model *m, const struct mega_op *op, const struct mega_seat *seat, uint16_t *order)
{
  int n = op->tiles, groups = (n + m->workers - 1) / m->workers, each = (n + groups - 1) / groups, at = 0;
  struct seat_work *w = NEWS(mem, struct seat_work, n);
  for (int t = 0; t < n; t++) w[t] = (struct seat_work){seat[t / (n / op->parts[0])].past, t};
  qsort(w, (size_t)n, sizeof *w, longer_first);
  bool alike = w[0].positions - w[n - 1].positions <= w[0].positions / 16; // all lengths are similar: keep the order
  for (int i = 0; i < n && alike; i++) order[i] = (uint16_t)i;
  for (int i = 0; i < each && !alike; i++)
    for (int g = 0; g < groups; g++) {
      int first = g * each, size = MIN(each, n - first), of = g % 2 ? size - 1 - i : i;
      if (i < size) order[at++] = (uint16_t)w[first + of].tile;
    }
}

// ---- seats that a proof covers ----

static int bad_row(const struct mega_seat *s, int row, const char *what, long long is, struct err *e)
{
  return err_set(e, ERR_MEGA, NOWHERE, "row %d, position %lld: %s %lld", row, (long long)s->position, what, is);
}

static int seat_fits(const struct mega_model *m, const struct mega_seat *seat, int row, int npages, int steps, struct err *e)
{
  const struct mega_seat *s = &seat[row];
  int64_t slots, pages = mega_pages_of(m, &slots);
  if (s->position < 0 || s->position >= MEGA_MOST_NUMBER) return bad_row(s, row, "positions must be at least 0 and below", MEGA_MOST_NUMBER, e);
  if (s->past < 0 || s->before < 0 || s->before > row || s->past + s->before != s->position)
    return bad_row(s, row, "earlier rows of its request in this step:", s->before, e);
  for (int i = 1; i <= s->before; i++)
    if (!seat[row - i].live || seat[row - i].pages != s->pages || seat[row - i].position != s->position - i)
      return bad_row(s, row, "the row before it must have the previous position, but has", (long long)seat[row - i].position, e);
  if (steps > 1 && (s->before || !s->moves)) return bad_row(s, row, "a launch with rows of a prompt must run one step, but steps is", steps, e);
  if (s->position + steps > npages * slots) {
    bad_row(s, row, "the pages of its request only hold positions below", (long long)(npages * slots), e);
    return err_hint(e, "give the request another page before the step that needs it"), USER;
  }
  for (int i = 0; i < npages; i++)
    if (s->pages[i] < 1 || s->pages[i] >= pages)
      return bad_row(s, row, "its page table has a page that does not exist or is reserved:", s->pages[i], e);
  return OK;
}

// A page that this launch writes must belong to one request alone.
static int writes_apart(const struct mega_model *m, const struct mega_seat *seat, const int *pages, int row, int steps, struct err *e)
{
  int64_t slots;
  mega_pages_of(m, &slots);
  const struct mega_seat *s = &seat[row];
  for (int64_t i = s->past / slots; i <= (s->position + steps - 1) / slots; i++)
    for (int r = 0; r < m->rows; r++)
      for (int k = 0; k < pages[r] && seat[r].live; k++) {
        bool own = seat[r].pages == s->pages && k == i && (r == row || seat[r].past == s->past);
        if (seat[r].pages[k] == s->pages[i] && !own) return bad_row(s, row, "another row has the page that this row writes:", s->pages[i], e);
      }
  return OK;
}

// No two rows may have the same position of one request.
static int requests_apart(const struct mega_seat *seat, int row, struct err *e)
{
  for (int r = 0; r < row; r++)
    if (seat[r].live && seat[r].position == seat[row].position && seat[r].pages == seat[row].pages)
      return bad_row(&seat[row], row, "it has the same position of the request as row", r, e);
  return OK;
}

int mega_seats_check(const struct mega_model *m, const struct mega_seat *seat, const int *pages, int steps, struct err *e)
{
  for (int r = 0; r < m->rows; r++)
    if (seat[r].live) TRY(seat_fits(m, seat, r, pages[r], steps, e));
  for (int r = 0; r < m->rows; r++) {
    if (!seat[r].live) continue;
    TRY(requests_apart(seat, r, e));
    TRY(writes_apart(m, seat, pages, r, steps, e));
  }
  return OK;
}

// ---- seats for which a proof is repeated ----

enum { EMPTY, UNEQUAL, PROMPT, MIXED, SAMPLES };

static void one_prompt(struct mega_seat *s, int first, int rows, int64_t past, const int32_t *pages)
{
  for (int i = 0; i < rows; i++) s[first + i] = (struct mega_seat){true, false, past + i, past, i, pages};
}

struct mega_seat *mega_seats_sample(struct arena *mem, const struct mega_model *m, int number)
{
  int64_t slots, all = mega_pages_of(m, &slots), share = (all - 1) / m->rows;
  struct mega_seat *s = NEWS(mem, struct mega_seat, m->rows);
  int32_t *pages = NEWS(mem, int32_t, all + 1); // of a prompt. In descending order, so adjacent positions are not in adjacent pages
  for (int64_t i = 0; i + 1 < all; i++) pages[i] = (int32_t)(number == MIXED ? 1 + share + i : all - 1 - i);
  int64_t past = all > 2 ? MAX(slots - 2, 0) : 0; // a prompt that continues in another page, if there is one
  switch (number) {
  case EMPTY:
  case UNEQUAL: // up to the last position of the row's share
    for (int r = 0; r < m->rows; r++) {
      int64_t at = number == EMPTY ? 0 : (share * slots - 2) * (r + 1) / m->rows;
      s[r] = (struct mega_seat){true, true, at, at, 0, NULL};
    }
    return s;
  case PROMPT: return one_prompt(s, 0, m->rows, past, pages), s;
  case MIXED: // an idle row, then a prompt, then rows that decode, in a launch of one step
    if (m->rows < 3) return NULL;
    one_prompt(s, 1, m->rows / 2, share > 1 ? past : 0, pages);
    for (int r = 1 + m->rows / 2; r < m->rows; r++) s[r] = (struct mega_seat){true, false, r % (share * slots), r % (share * slots), 0, NULL};
    return s;
  default: return NULL;
  }
}

// Returns an order of tiles for the proof of a sample: none for EMPTY, the reverse for UNEQUAL, a rotation by half of the tiles for others.
const uint16_t *mega_order_sample(struct arena *mem, const struct mega_model *m, int number)
{
  for (int o = 0; o < m->nops && number != EMPTY; o++) {
    if (!mega_ordered(m, &m->op[o])) continue;
    int n = m->op[o].tiles;
    uint16_t *order = NEWS(mem, uint16_t, n);
    for (int i = 0; i < n; i++) order[i] = (uint16_t)(number == UNEQUAL ? n - 1 - i : (i + n / 2) % n);
    return order;
  }
  return NULL;
}
