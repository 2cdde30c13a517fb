// Names. Each graph has its own scope. A block reaches tensors of the enclosing graph only through iter, because it
// has access only to the tiles that it loads. Numbers are visible in all nested scopes.
#include "front/parse.h"

#include <string.h>

static int bucket_of(const struct token *id) { return (int)(hash_bytes(id->p, (size_t)id->n, 0) % BUCKETS); }

static const struct name *find(const struct front_scope *s, const struct token *id)
{
  for (int i = s->bucket[bucket_of(id)]; i; i = s->names[i - 1].next)
    if (lex_is(id, s->names[i - 1].id)) return &s->names[i - 1];
  return NULL;
}

static int unknown(struct parser *p, const struct token *id, const struct front_scope *from)
{
  char text[64], *word = arena_printf(p->mem, "%.*s", id->n, id->p);
  lex_text(text, id);
  struct near near = near_start(word);
  for (const struct front_scope *s = from; s; s = s->above)
    for (int i = 0; i < s->n; i++)
      if (s == from || s->names[i].value.kind == NUMBER) near_try(&near, s->names[i].id);
  int status = err_set(p->e, ERR_NAME, id->at, "%s is not defined", text);
  if (near.best) err_hint(p->e, "did you mean `%s`?", near.best);
  return status;
}

static int reserved(struct parser *p, const struct token *id)
{
  char text[64];
  lex_text(text, id);
  int s = err_set(p->e, ERR_SYNTAX, id->at, "%s is a word of the language and cannot be a name", text);
  err_hint(p->e, "choose another name");
  return s;
}

int parse_duplicate(struct parser *p, struct loc at, const char *id, struct loc first)
{
  int s = err_set(p->e, ERR_DUPLICATE, at, "`%s` is already defined", id);
  if (first.line) err_hint(p->e, "the first definition is at line %d; give each tensor a name of its own", first.line);
  return s;
}

int scope_define(struct parser *p, const struct token *id, const struct front_value *v)
{
  struct front_scope *s = p->scope;
  if (lex_is(id, "_")) return OK;
  char *name = arena_printf(p->mem, "%.*s", id->n, id->p);
  if (!print_is_name(name)) return reserved(p, id);
  const struct name *old = find(s, id);
  if (old) return parse_duplicate(p, id->at, name, old->value.at);
  int *bucket = &s->bucket[bucket_of(id)];
  struct front_value copy = *v;
  copy.at = id->at;
  PUSH(p->mem, s->names, s->n, s->cap) = (struct name){name, *bucket, copy};
  *bucket = s->n;
  if (v->kind != TENSORS || s->g->tensors[v->first].name) return OK; // a number, or a second name
  s->g->tensors[v->first].name = name;                               // unique, because the scope has every tensor's name
  return OK;
}

int scope_rebind(struct parser *p, const struct token *id, int tensor)
{
  struct front_scope *s = p->scope;
  for (int i = s->bucket[bucket_of(id)]; i; i = s->names[i - 1].next)
    if (lex_is(id, s->names[i - 1].id)) return s->names[i - 1].value.first = tensor, OK;
  return unknown(p, id, s);
}

static bool number_around(const struct front_scope *s, const struct token *id, struct front_value *v)
{
  for (; s; s = s->above) {
    const struct name *n = find(s, id);
    if (n && n->value.kind == NUMBER) return *v = n->value, true;
  }
  return false;
}

int scope_value(struct parser *p, const struct token *id, struct front_value *v)
{
  const struct name *n = find(p->scope, id);
  if (lex_is(id, "return") || lex_is(id, "_") || lex_is(id, "and") || lex_is(id, "or") || lex_is(id, "not")) return reserved(p, id);
  if (n) return *v = n->value, v->at = id->at, OK;
  if (number_around(p->scope->above, id, v)) return v->at = id->at, OK;
  for (const struct front_scope *s = p->scope->above; s; s = s->above) {
    if (!find(s, id)) continue;
    char text[64];
    lex_text(text, id);
    int status = err_set(p->e, ERR_NAME, id->at, "%s belongs to the graph around this %s", text, level_name(p->scope->g->level));
    return err_hint(p->e, "load a tile of it: t = iter(%.*s, imap={x:0})", id->n, id->p), status;
  }
  return unknown(p, id, p->scope);
}

int scope_outer(struct parser *p, const struct token *id, int *tensor)
{
  struct front_scope *s = p->scope;
  const struct name *n = s->above ? find(s->above, id) : NULL;
  if (n && n->value.kind == TENSORS) return *tensor = n->value.first, OK;
  if (s->above && find(s, id)) {
    char text[64];
    lex_text(text, id);
    int status =
        err_set(p->e, ERR_NAME, id->at, "%s is a tensor inside this %s, and iter loads from the graph around it", text, level_name(s->g->level));
    return err_hint(p->e, "use the tensor as it is"), status;
  }
  return unknown(p, id, s->above ? s->above : s);
}

int scope_name_results(struct parser *p, int n, const struct token *ids, const struct front_value *v)
{
  int count = v->kind == TENSORS ? v->count : 1;
  if (count != n) {
    int s = err_set(p->e, ERR_ARITY, ids[0].at, "%d name%s for %d result%s", n, n == 1 ? "" : "s", count, count == 1 ? "" : "s");
    return err_hint(p->e, "write one name for each result; `_` drops one"), s;
  }
  for (int i = 0; i < n; i++) {
    struct front_value one = *v;
    if (one.kind == TENSORS) one.first += i, one.count = 1;
    int s = scope_define(p, &ids[i], &one);
    if (s) return s;
  }
  return OK;
}
