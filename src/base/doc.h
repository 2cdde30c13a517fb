// doc: JSON documents under a guard (memory.h). Used instead of <jansson.h> wherever documents are made: these functions call the library's
// allocating functions. So callers need not check results, and a call that is left loses no documents.
//
// The guard holds a reference to each value that is made until it is left. So documents live until then, and json_decref only ends the caller's use.
#ifndef MICA_DOC_H
#define MICA_DOC_H

#include <jansson.h>
#include <stdbool.h>

json_t *doc_held(json_t *v); // NULL: there was no memory
json_t *doc_text(const char *s);
json_t *doc_pack(const char *fmt, ...);
json_t *doc_loads(const char *text, size_t flags, json_error_t *why);
json_t *doc_loadb(const char *text, size_t n, size_t flags, json_error_t *why);
int doc_set(json_t *o, const char *key, json_t *v);
int doc_append(json_t *a, json_t *v);
int doc_update(json_t *o, json_t *with);
char *doc_dumps(const json_t *v, size_t flags); // free it with mem_free
void doc_done(json_t *v);                       // json_decref of the newest value, when it is no longer needed

// ---- json_text.c ----
struct str;
void json_text(const json_t *v, struct str *out); // indented, ends in a line feed

#define json_object() doc_held(json_object())
#define json_array() doc_held(json_array())
#define json_integer(x) doc_held(json_integer(x))
#define json_real(x) doc_held(json_real(x))
#define json_string(s) doc_text(s)
#define json_pack(...) doc_pack(__VA_ARGS__)
#define json_loads(text, flags, why) doc_loads(text, flags, why)
#define json_loadb(text, n, flags, why) doc_loadb(text, n, flags, why)
#define json_object_set_new(o, key, v) doc_set(o, key, v)
#define json_array_append_new(a, v) doc_append(a, v)
#define json_object_update_new(o, with) doc_update(o, with)
#define json_dumps(v, flags) doc_dumps(v, flags)

#endif
