// The usual form of programs and graphs as text.
#ifndef MICA_FRONT_FORMAT_H
#define MICA_FRONT_FORMAT_H

#include "front/front.h"

// The text of n bytes in the usual form; comments and line breaks stay. A text that does not parse is an error, whose place is in mem.
int format_text(struct arena *mem, const char *text, size_t n, const char *file, struct str *out, struct err *e);

#endif
