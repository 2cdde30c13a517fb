// Prints kernels as text that kern_parse.c reads:
//
//   kern {
//     letters a0=8 a1=64          extents of axes; letters, grid axes and loop axes each have a line
//     v0 = load f16 t1[512] + 0 + a0*64 + a1*1
//     v1 = exp2(1.44) v0
//     v2 = sum{a1} v1
//     v3 = product{a1}{a0} v1 v0  {summed axes}{batch axes}
//     v4 = spread{a0,a1} v2
//     v5 = chosen f16 t1[512] + 0 + a1*1 + at0*64 < 8 v0    at index v0 from 0 to 7
//     v6 = placed v5 v0                                     stored at index v0; the save has the stride
//     save v4 f16 t3[512] + 0 + a0*64 + a1*1
//   }
#include "kern/kern_text.h"

const char *const kern_axes_name[KERN_AXES_NAMES] = {"letters", "grid", "loops"};

static axis_set axes_named(const struct kern *k, int which)
{
  return which == 0 ? k->letters & ~k->loops : which == 2 ? k->loops : ~(k->letters | k->loops);
}

static void axes(axis_set s, struct str *out)
{
  const char *between = "";
  str_add(out, "{");
  EACH_AXIS(a, s) str_add(out, "%sa%d", between, a), between = ",";
  str_add(out, "}");
}

static void access_text(const struct kern *k, const struct kern_access *a, struct str *out)
{
  str_add(out, " %s %c%d[%lld] + %lld", dtype_name(a->type), a->index ? 'i' : 't', a->tensor, (long long)a->elements, (long long)a->offset);
  for (int i = 0; i < k->naxes; i++)
    if (a->stride[i]) str_add(out, " + a%d*%lld", i, (long long)a->stride[i]);
  for (int i = 0; i < KERN_CHOSEN_BY && a->by[i].limit; i++)
    str_add(out, " + at%d*%lld < %lld", i, (long long)a->by[i].stride, (long long)a->by[i].limit);
}

static void map(const struct kern_value *v, struct str *out)
{
  struct kern_op_row row = kern_op(v->op);
  str_add(out, "%s", row.name);
  int n = 0;
  for (int i = 0; i < ATTRS; i++)
    if (row.attrs >> i & 1) str_add(out, "%s%.17g", n++ ? "," : "(", attr_real(&v->a, i));
  if (n) str_add(out, ")");
}

static void one(const struct kern *k, int i, struct str *out)
{
  const struct kern_value *v = &k->v[i];
  str_add(out, "  v%d = ", i);
  if (v->kind == KERN_MAP)
    map(v, out);
  else
    str_add(out, "%s", kern_kinds[v->kind].name);
  if (v->kind == KERN_CONST) str_add(out, " %.17g", v->a.scalar);
  if (kern_loads(v) || kern_tops(v)) access_text(k, &v->at, out);
  if (v->kind == KERN_SPREAD || kern_has(v, KERN_OVER)) axes(v->kind == KERN_SPREAD ? v->axes : v->folded, out);
  if (v->kind == KERN_PRODUCT) axes(v->batch, out);
  for (int n = 0; n < v->nin; n++) str_add(out, " v%d", v->in[n]);
  str_add(out, "\n");
}

void kern_print(const struct kern *k, struct str *out)
{
  str_add(out, "kern {\n");
  for (int w = 0; w < KERN_AXES_NAMES; w++) {
    bool any = false;
    EACH_AXIS(a, kern_present(k, axes_named(k, w))) {
      if (!any) str_add(out, "  %s", kern_axes_name[w]);
      any = true, str_add(out, " a%d=%lld", a, (long long)k->extent[a]);
    }
    if (any) str_add(out, "\n");
  }
  for (int i = 0; i < k->nvalues; i++) one(k, i, out);
  for (int i = 0; i < k->nsaves; i++) {
    str_add(out, "  save v%d", k->save[i].value);
    access_text(k, &k->save[i].at, out);
    str_add(out, "\n");
  }
  str_add(out, "}\n");
}
