// NonMaxSuppression: for each image and class, keeps the boxes with the highest scores that do not overlap a better one too much.
#include "onnx/onnx_host.h"

#include <math.h>
#include <stdlib.h>

struct host_boxes_pick {
  double score;
  int64_t box;
};

static int better_first(const void *a, const void *b)
{
  const struct host_boxes_pick *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->box < y->box ? -1 : x->box > y->box;
}

// The box's corners in order. The input is two corners, or a centre and extents.
static void corners(const double *b, bool centre, double c[4])
{
  if (centre) {
    c[0] = b[0] - b[2] / 2, c[1] = b[1] - b[3] / 2, c[2] = b[0] + b[2] / 2, c[3] = b[1] + b[3] / 2;
  } else {
    c[0] = fmin(b[0], b[2]), c[1] = fmin(b[1], b[3]), c[2] = fmax(b[0], b[2]), c[3] = fmax(b[1], b[3]);
  }
}

static double overlap(const double *a, const double *b, bool centre)
{
  double x[4], y[4];
  corners(a, centre, x), corners(b, centre, y);
  double high = fmin(x[2], y[2]) - fmax(x[0], y[0]), wide = fmin(x[3], y[3]) - fmax(x[1], y[1]), both = high > 0 && wide > 0 ? high * wide : 0;
  double all = (x[2] - x[0]) * (x[3] - x[1]) + (y[2] - y[0]) * (y[3] - y[1]) - both;
  return all > 0 ? both / all : 0;
}

void host_non_max_suppression(struct onnx_host *h)
{
  const struct onnx_cells *boxes = host_in(h, 0), *scores = host_in(h, 1);
  bool centre = onnx_attr_int(h->n, "center_point_box", 0);
  if (!host_real(h, 0) || !host_real(h, 1)) return;
  const struct shape *s = &scores->shape;
  if (s->n != 3 || boxes->shape.n != 3 || boxes->shape.d[2] != 4 || boxes->shape.d[0] != s->d[0] || boxes->shape.d[1] != s->d[2])
    return host_fail(h, "its boxes and scores do not fit");
  if (!boxes->p || !scores->p) return host_late(h, "what it keeps");
  double most = host_scalar(h, 2, 0), limit = host_scalar(h, 3, 0), least = host_scalar(h, 4, -INFINITY);
  if (h->failed) return;
  int64_t n = s->d[2], kept = 0, cap = MIN((int64_t)fmin(fmax(most, 0), 0x1p40), n), room = s->d[0] * s->d[1] * cap;
  if (room > h->most) return host_fail(h, "it would make %lld boxes", (long long)room);
  struct host_boxes_pick *all = arena_alloc(h->mem, sizeof *all * (size_t)MAX(n, 1));
  int64_t *out = arena_alloc(h->mem, 24 * (size_t)MAX(room, 1));
  for (int64_t lane = 0; lane < s->d[0] * s->d[1]; lane++) {
    int64_t first = kept, count = 0;
    const double *b = boxes->f + lane / s->d[1] * n * 4;
    for (int64_t i = 0; i < n; i++)
      if (scores->f[lane * n + i] > least) all[count++] = (struct host_boxes_pick){scores->f[lane * n + i], i};
    qsort(all, (size_t)count, sizeof *all, better_first);
    for (int64_t i = 0; i < count && kept - first < cap; i++) {
      bool good = true;
      for (int64_t k = first; k < kept && good; k++) good = overlap(b + all[i].box * 4, b + out[3 * k + 2] * 4, centre) <= limit;
      if (good) out[3 * kept] = lane / s->d[1], out[3 * kept + 1] = lane % s->d[1], out[3 * kept + 2] = all[i].box, kept++;
    }
  }
  struct onnx_cells *y = host_out(h, 0, ONNX_INT64, &(struct shape){.n = 2, .d = {kept, 3}});
  for (int64_t i = 0; i < 3 * kept && !h->failed; i++) y->i[i] = out[i];
}
