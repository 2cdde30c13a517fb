// The usual form of programs and graphs as text.
#ifndef MICA_FRONT_FORMAT_H
#define MICA_FRONT_FORMAT_H

#include "front/front.h"

// Appends the n bytes of text to out in the usual form; comments and line breaks stay. A text that does not parse is an error. The location of
// the error is allocated in mem.
int format_text(struct arena *mem, const char *text, size_t n, const char *file, struct str *out, struct err *e);

#endif
