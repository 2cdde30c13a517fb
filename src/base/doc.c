// JSON documents under a guard (doc.h). A failed allocation ends the call; invalid UTF-8 gives no value, as in jansson.
#include "base/memory.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/doc.h"
#undef json_object
#undef json_array
#undef json_integer
#undef json_real
#undef json_string
#undef json_pack
#undef json_loadb
#undef json_object_set_new
#undef json_array_append_new
#undef json_object_update_new
#undef json_dumps

enum { A_VALUE = sizeof(json_t) }; // for the message: jansson does not report the size

struct held {
  json_t *v;
};

static void part(void *p)
{
  const struct held *h = p;
  if (json_is_object(h->v)) json_object_clear(h->v);
  if (json_is_array(h->v)) json_array_clear(h->v);
}

// No other owner is left: the documents' owners have been left.
static void destroy(void *p)
{
  const struct held *h = p;
  for (size_t n = h->v->refcount; n; n--) json_decref(h->v);
  mem_free(p);
}

static void leave(void *p)
{
  const struct held *h = p;
  json_decref(h->v);
  mem_free(p);
}

static const struct mem_kind kind = {destroy, part, leave};

static void drop(void *v) { json_decref(v); }
static void drop_text(void *text) { free(text); }

json_t *doc_held(json_t *v)
{
  if (!v) mem_none(A_VALUE);
  if (!guard_here()) return v;
  struct undo undo; // for a failed allocation of this one
  undo_push(&undo, drop, v);
  struct held *h = mem_handle(sizeof *h, &kind);
  undo_pop(&undo);
  h->v = json_incref(v);
  return v;
}

// jansson reports a lack of memory in this way, or not at all.
static json_t *made(json_t *v, const json_error_t *why)
{
  return v || !*why->text || json_error_code(why) == json_error_out_of_memory ? doc_held(v) : NULL;
}

json_t *doc_text(const char *s)
{
  json_error_t why = {0};
  return made(json_pack_ex(&why, 0, "s", s), &why);
}

json_t *doc_pack(const char *fmt, ...)
{
  json_error_t why = {0};
  va_list ap;
  va_start(ap, fmt);
  json_t *v = json_vpack_ex(&why, 0, fmt, ap);
  va_end(ap);
  return made(v, &why);
}

// jansson reports a lack of memory as a syntax error. So a text with an error is parsed twice; the second time as much memory must be free as a
// document of this length can need.
json_t *doc_loadb(const char *text, size_t n, size_t flags, json_error_t *why)
{
  enum { MOST_A_BYTE = 100 };
  json_error_t mine = {0};
  json_t *v = json_loadb(text, n, flags, &mine);
  if (!v) v = json_loadb(text, n, flags, &mine);
  if (why) *why = mine;
  if (v) return doc_held(v);
  mem_free(mem_take(MOST_A_BYTE * n));
  return made(NULL, &mine);
}

json_t *doc_loads(const char *text, size_t flags, json_error_t *why) { return doc_loadb(text, strlen(text), flags, why); }

static int done(bool asked, int status)
{
  if (asked && status) mem_none(A_VALUE);
  return status;
}

void doc_done(json_t *v)
{
  const struct guard *g = guard_here();
  struct held *h = g ? mem_newest(g, &kind) : NULL;
  if (h && h->v == v) leave(h);
  json_decref(v);
}

int doc_set(json_t *o, const char *key, json_t *v) { return done(o && v, json_object_set_new(o, key, v)); }
int doc_append(json_t *a, json_t *v) { return done(a && v, json_array_append_new(a, v)); }
int doc_update(json_t *o, json_t *with) { return done(o && with, json_object_update_new(o, with)); }

char *doc_dumps(const json_t *v, size_t flags)
{
  char *text = json_dumps(v, flags);
  if (!text) mem_none(A_VALUE);
  struct undo undo;
  undo_push(&undo, drop_text, text);
  char *copy = mem_take(strlen(text) + 1);
  undo_pop(&undo);
  strcpy(copy, text);
  return free(text), copy;
}
