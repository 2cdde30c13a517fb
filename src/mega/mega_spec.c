// The rows of layer.def, and their accesses as structures.
#include "mega/mega_bodies.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const struct mega_name mega_kinds[] = {
#define TENSOR_KIND(id, name, written, doc) {name, written, doc},
#define EVENT_KIND(...)
#include "mega/kind.def"
};
const struct mega_name mega_signals[] = {
#define TENSOR_KIND(...)
#define EVENT_KIND(id, name, ordering, doc) {name, ordering, doc},
#include "mega/kind.def"
};
const char *const mega_attr_names[] = {
#define X(name) #name,
    MEGA_ATTRS(X)
#undef X
};

const struct mega_layer mega_layers[] = {
#define LAYER(name, grid, sizes, attributes, access, program, doc) {#name, grid, sizes, attributes, access, program, doc, mega_body_##name},
#include "mega/layer.def"
#undef LAYER
};
const int mega_layer_count = COUNT(mega_layers);

const struct mega_layer *mega_layer_find(const char *name)
{
  for (int i = 0; i < mega_layer_count; i++)
    if (!strcmp(mega_layers[i].name, name)) return &mega_layers[i];
  return NULL;
}

// ---- reading ----

struct mega_reading {
  struct mega_spec *s;
  const char *p, *row;
  char args[MEGA_ARGS][12];
  char *why;
};

static int fail(struct mega_reading *r, const char *what) { return snprintf(r->why, 160, "%s: %s at \"%.40s\"", r->row, what, r->p), NO; }

static void skip_blanks(struct mega_reading *r)
{
  while (*r->p == ' ' || *r->p == '\n') r->p++;
}

static bool take(struct mega_reading *r, char c)
{
  skip_blanks(r);
  return *r->p == c ? r->p++, true : false;
}

static bool word(struct mega_reading *r, char out[12])
{
  int n = 0;
  skip_blanks(r);
  while ((isalnum((unsigned char)*r->p) || *r->p == '_') && n < 11) out[n++] = *r->p++;
  out[n] = 0;
  return n > 0;
}

static int symbol(struct mega_reading *r, const char *name)
{
  struct mega_spec *s = r->s;
  for (int i = 0; i < s->nsymbols; i++)
    if (!strcmp(s->symbol[i], name)) return i;
  if (s->nsymbols == MEGA_SYMBOLS) return -1;
  snprintf(s->symbol[s->nsymbols], sizeof s->symbol[0], "%s", name);
  return s->nsymbols++;
}

static int attribute(const char *name)
{
  for (int i = 0; i < MEGA_ATTR_COUNT; i++)
    if (!strcmp(mega_attr_names[i], name)) return i;
  return -1;
}

static int axis(const struct mega_spec *s, const char *name)
{
  for (int i = 0; i < s->naxes; i++)
    if (!strcmp(s->axis[i].name, name)) return i;
  return -1;
}

static int read_grid(struct mega_reading *r, const char *text)
{
  char name[12], by[12];
  for (r->p = text; skip_blanks(r), *r->p;) {
    if (!word(r, name) || r->s->naxes == MEGA_AXES) return fail(r, "an axis");
    struct mega_grid *g = &r->s->axis[r->s->naxes++];
    *g = (struct mega_grid){-1};
    snprintf(g->name, sizeof g->name, "%.7s", name);
    if (!take(r, '=')) continue;
    if (!word(r, by)) return fail(r, "an extent");
    g->symbol = symbol(r, by);
  }
  return OK;
}

static int read_sizes(struct mega_reading *r, const char *text)
{
  char name[12], a[12], b[12];
  for (r->p = text; skip_blanks(r), *r->p;) {
    if (!word(r, name) || !take(r, '=') || !word(r, a) || !take(r, '*') || !word(r, b)) return fail(r, "a size");
    struct mega_size z = {symbol(r, name), attribute(a), attribute(b)};
    if (z.a < 0 || z.b < 0) return fail(r, "an attribute");
    r->s->size[r->s->nsizes++] = z;
  }
  return OK;
}

static int read_attributes(struct mega_reading *r, const char *text)
{
  char name[12 + 8];
  for (const char *p = text; *p;) {
    size_t n = strcspn(p, " ");
    snprintf(name, sizeof name, "%.*s", (int)n, p);
    int a = attribute(name);
    if (a < 0) return fail(r, "an attribute of the row is unknown");
    r->s->attrs |= 1u << a;
    p += n + (p[n] == ' ');
  }
  return OK;
}

static int read_place(struct mega_reading *r, struct mega_dim *d, const char *name)
{
  static const struct {
    const char *name, *when;
    enum mega_how how;
    bool table;
  } places[] = {{"pages", "now", MEGA_PAGE_NOW, false},   {"slots", "now", MEGA_SLOT_NOW, false}, {"pages", "past", MEGA_PAGE_PAST, false},
                {"slots", "past", MEGA_SLOT_PAST, false}, {"table", "now", MEGA_PAGE_NOW, true},  {"table", "past", MEGA_PAGE_PAST, true}};
  char when[12];
  if (!word(r, when)) return fail(r, "now or past");
  for (size_t i = 0; i < COUNT(places); i++)
    if (!strcmp(places[i].name, name) && !strcmp(places[i].when, when)) return d->how = places[i].how, d->table = places[i].table, OK;
  return fail(r, "a place");
}

static int read_section(struct mega_reading *r, struct mega_dim *d)
{
  char name[12];
  if (!word(r, name) || !take(r, '}')) return fail(r, "a section");
  for (int i = 0; i < d->nsections; i++)
    if (!strcmp(r->s->symbol[d->sections[i]], name)) return d->section = i, OK;
  return fail(r, "no such section");
}

static int read_decider(struct mega_reading *r, struct mega_dim *d)
{
  char name[12];
  if (!word(r, name)) return fail(r, "the argument that decides");
  for (int i = 0; i < r->s->nargs; i++)
    if (!strcmp(r->args[i], name)) d->how = MEGA_ANY, d->decider = i;
  return d->decider >= 0 ? OK : fail(r, "no such argument before");
}

static int read_dim(struct mega_reading *r, struct mega_dim *d)
{
  char name[12];
  *d = (struct mega_dim){.symbol = -1, .axis = -1, .section = -1, .decider = -1};
  if (take(r, '@')) return d->how = MEGA_THIS_LAYER, OK;
  if (!word(r, name)) return fail(r, "a dimension");
  if (isdigit((unsigned char)name[0])) return d->extent = atoi(name), OK;
  d->symbol = symbol(r, name);
  if (d->symbol < 0) return fail(r, "too many names");
  if (*r->p == '+') d->sections[d->nsections++] = d->symbol, d->symbol = -1;
  while (take(r, '+')) {
    if (!word(r, name) || d->nsections == MEGA_SECTIONS) return fail(r, "a section");
    d->sections[d->nsections++] = symbol(r, name);
  }
  if (take(r, '.')) TRY(read_place(r, d, name));
  if (take(r, '?')) TRY(read_decider(r, d));
  if (take(r, '~')) d->cut = true;
  if (take(r, '{')) TRY(read_section(r, d));
  if (!take(r, '/')) return OK;
  if (!word(r, name) || (d->axis = axis(r->s, name)) < 0) return fail(r, "an axis of the grid");
  if (d->how != MEGA_PAGE_PAST && d->how != MEGA_SLOT_PAST) d->how = MEGA_PART;
  if (take(r, '~')) d->cut = true;
  return OK;
}

static int argument(struct mega_reading *r, const char *name)
{
  for (int i = 0; i < r->s->nargs; i++)
    if (!strcmp(r->args[i], name)) return i;
  if (r->s->nargs == MEGA_ARGS) return -1;
  snprintf(r->args[r->s->nargs], sizeof r->args[0], "%s", name);
  return r->s->nargs++;
}

static int read_room(struct mega_reading *r, enum mega_room *room)
{
#define X(id, name) [MEGA_ROOM_##id] = name,
  static const char *const names[] = {MEGA_ROOMS(X)};
#undef X
  char name[12];
  if (!word(r, name)) return fail(r, "a room");
  for (size_t i = MEGA_ROOM_ROW; i < COUNT(names); i++)
    if (!strcmp(names[i], name)) return *room = (enum mega_room)i, OK;
  return fail(r, "no such room");
}

static int read_access(struct mega_reading *r)
{
  char role[12], name[12];
  if (r->s->naccess == MEGA_ACCESSES) return fail(r, "too many accesses");
  struct mega_access *a = &r->s->access[r->s->naccess++];
  if (!word(r, role) || !word(r, name) || !take(r, '[')) return fail(r, "an access");
  *a =
      (struct mega_access){.arg = argument(r, name), .out = !strcmp(role, "out"), .stream = !strcmp(role, "stream"), .slots = !strcmp(role, "slots")};
  if (a->arg < 0 || (!a->out && !a->stream && !a->slots && strcmp(role, "in"))) return fail(r, "in, slots, stream or out");
  if (a->out) r->s->writes[a->arg] = true;
  do {
    if (a->rank == MEGA_DIMS) return fail(r, "too many dimensions");
    TRY(read_dim(r, &a->dim[a->rank++]));
  } while (take(r, ','));
  if (!take(r, ']')) return fail(r, "no ]");
  return take(r, ':') ? read_room(r, &a->room) : OK;
}

static void find_decider(const struct mega_spec *s, struct mega_access *a)
{
  a->decider = a->decided = -1;
  for (int d = 0; a->stream && d < a->rank; d++)
    for (int i = 0; i < s->naccess && a->dim[d].how == MEGA_ANY && a->decider < 0; i++)
      if (s->access[i].arg == a->dim[d].decider) a->decider = i, a->decided = d;
}

int mega_spec_read(const struct mega_layer *l, struct mega_spec *s, char why[160])
{
  struct mega_reading r = {.s = s, .row = l->name, .why = why};
  *s = (struct mega_spec){0};
  TRY(read_grid(&r, l->grid));
  TRY(read_sizes(&r, l->sizes));
  TRY(read_attributes(&r, l->attributes));
  r.p = l->access;
  do TRY(read_access(&r));
  while (take(&r, ';'));
  for (int i = 0; i < s->naccess; i++) find_decider(s, &s->access[i]);
  skip_blanks(&r);
  return *r.p ? fail(&r, "the end") : OK;
}
