// Views held against what a program takes, and the message of what does not fit.
#include "ext.h"

#include <stdio.h>
#include <string.h>

// "input 1 (W)"
static const char *place(const struct mica_tensor *want, bool output, int number, char out[200])
{
  const char *name = want->name ? want->name : "", *kind = output ? "output" : "input";
  if (*name)
    snprintf(out, 200, "%s %d (%.150s)", kind, number, name);
  else
    snprintf(out, 200, "%s %d", kind, number);
  return out;
}

// A view of more dimensions than programs have has no shape (ext_view_take).
static const char *extents(int n, const int64_t *shape, char out[200])
{
  if (n > MICA_MAX_DIMS) return snprintf(out, 200, "one of %d dimensions", n), out;
  size_t k = (size_t)snprintf(out, 200, "[");
  for (int i = 0; i < n; i++) k += (size_t)snprintf(out + k, 200 - k, "%s%lld", i ? ", " : "", (long long)shape[i]);
  snprintf(out + k, 200 - k, "]");
  return out;
}

static bool same_shape(const struct view *v, const struct mica_tensor *want)
{
  if (v->ndim != want->ndim) return false;
  for (int i = 0; i < want->ndim; i++)
    if (v->shape[i] != want->shape[i]) return false;
  return true;
}

static int wrong_device(struct state *st, const struct view *v, const char *where, bool gpu)
{
  if (gpu) return ext_raise_argument(st, "%s: it is in memory of the CPU, and the program runs on a GPU: move it there", where), -1;
  return ext_raise_argument(st, "%s: it is on cuda:%d, and the program runs on the CPU: move it there, or optimize for the GPU (target=...)", where,
                            v->device),
         -1;
}

int ext_view_check(struct state *st, const struct view *v, const struct mica_tensor *want, bool output, int number, bool gpu)
{
  if (v->dtype == (int)want->dtype && same_shape(v, want) && v->dense && (v->device != CPU) == gpu && !(output && v->readonly) && v->data) return 0;
  char at[200], have[200], takes[200];
  const char *where = place(want, output, number, at);
  if (v->dtype != (int)want->dtype)
    return ext_raise_argument(st, "%s: its dtype is %s, and the program's is %s", where, v->dtype < 0 ? v->dtype_name : ext_dtype_name(v->dtype),
                              ext_dtype_name(want->dtype)),
           -1;
  if (!same_shape(v, want))
    return ext_raise_argument(st, "%s: its shape is %s, and the program's is %s", where, extents(v->ndim, v->shape, have),
                              extents(want->ndim, want->shape, takes)),
           -1;
  if ((v->device != CPU) != gpu) return wrong_device(st, v, where, gpu);
  if (!v->dense)
    return ext_raise_argument(st, "%s: it is not dense row by row: pass a contiguous copy (numpy.ascontiguousarray(x), x.contiguous())", where), -1;
  if (output && v->readonly) return ext_raise_argument(st, "%s: it is read-only", where), -1;
  return ext_raise_argument(st, "%s: it has no memory", where), -1;
}

static int64_t bytes(const struct mica_tensor *t)
{
  int64_t n = ext_dtype_bytes(t->dtype);
  for (int i = 0; i < t->ndim; i++) n *= t->shape[i];
  return n;
}

static bool overlap(const struct module *f, const struct view *v, int i, int k)
{
  uintptr_t a = (uintptr_t)v[i].data, b = (uintptr_t)v[k].data;
  return a < b + (uintptr_t)bytes(&f->in[k]) && b < a + (uintptr_t)bytes(&f->in[i]);
}

int ext_views_apart(struct state *st, const struct module *f, const struct view *v)
{
  char at[200], other[200];
  for (int i = f->nin; i < f->nin + f->nresults; i++)
    for (int k = 0; k < i; k++) {
      if (!overlap(f, v, i, k)) continue;
      ext_raise_argument(st, "%s shares memory with %s: an output overlaps nothing else", place(&f->in[i], true, i - f->nin, at),
                         place(&f->in[k], k >= f->nin, k >= f->nin ? k - f->nin : k, other));
      return -1;
    }
  return 0;
}

int ext_states_apart(struct state *st, const struct module *f, const struct view *v)
{
  char at[200], other[200];
  for (int i = f->nresults; i < f->nout; i++) {
    const int s = f->out[i].state - 1;
    for (int k = 0; k < f->nin; k++) {
      if (k == s || !overlap(f, v, s, k)) continue;
      ext_raise_argument(st, "%s shares memory with %s: a state overlaps nothing else [alias]", place(&f->in[s], false, s, at),
                         place(&f->in[k], false, k, other));
      return -1;
    }
  }
  return 0;
}
