// The items of a block. An item is a block of the block graph, with number @bid. Blocks that do not walk have one.
//
// The ring of stages goes on across items, so iterations are counted from the block's first. If a condition hides iterations, items have different
// numbers of them, and the count is kept in a register. Items are then sorted by that number, the longest first (mma_late.c), and a block takes the
// first item of one round, the last of the next, and so on, so that blocks have nearly equal sums.
#include "lower/wgmma.h"

bool wgmma_counts(const struct wg_plan *w) { return w->walks && w->p.hides; }

static const char *item_of(struct mma_kernel *k, const struct wg_plan *w, const char *item)
{
  return k->p->hides && k->p->backwards ? arena_printf(k->mem, "(%lld - %s)", (long long)w->items - 1, item) : item;
}

void wgmma_item_alone(struct mma_kernel *k, const struct wg_plan *w) { wgmma_item(k, w, item_of(k, w, "@first")); }

static void open_counted(struct mma_kernel *k, const struct wg_plan *w)
{
  text_begin(k->t,
             "%before:[1].i32.RF\n"
             "%before[0] <- Init<(0)><<<#grid, #me>>>()\n"
             "for (round = 0; round < $rounds; round += 1) rolled {\n"
             "@place = (round + round % 2) * $blocks + (1 - round % 2 * 2) * @first - round % 2\n"
             "if (@place < $items) {\n"
             "@item = max(min(@place, $last), 0)\n" // its range is known
             "@counted = value(%before[0])\n"
             "@before = max(@counted, 0)",
             HOLES(NULL, INT(rounds, (w->items + w->blocks - 1) / w->blocks), INT(blocks, w->blocks), INT(items, w->items), INT(last, w->items - 1)));
  wgmma_item(k, w, item_of(k, w, "@item"));
  mma_hidden_bounds(k, k->p->hidden.loads);
}

void wgmma_items_open(struct mma_kernel *k, const struct wg_plan *w, bool in_turns)
{
  if (!w->walks) return;
  if (wgmma_counts(w)) {
    open_counted(k, w);
    return;
  }
  text_begin(k->t, "for (round = $first; round < ceil($items - @first, $blocks); round += $step) rolled {\n@item = round * $blocks + @first",
             HOLES(NULL, STR(first, in_turns ? "@g" : "0"), INT(items, w->items), INT(blocks, w->blocks), INT(step, in_turns ? w->groups : 1)));
  wgmma_item(k, w, "@item");
}

void wgmma_items_close(struct mma_kernel *k, const struct wg_plan *w)
{
  if (wgmma_counts(w)) {
    text_line(k->t, "%%before[0] <- Init<(@before + @count)><<<#grid, #me>>>()");
    text_close(k->t);
  }
  if (w->walks) text_close(k->t);
}

// Iterations of the block before this item, as text to be added to; "": none.
const char *wgmma_iterations_before(struct mma_kernel *k, const struct wg_plan *w)
{
  return wgmma_counts(w) ? "@before + " : w->walks ? arena_printf(k->mem, "round * %lld + ", (long long)k->p->iterations) : "";
}
