// visible: text of others, shown. Control characters, and those that are not seen or turn the direction of text around, can make a
// name look like another, and change what a terminal does.
#ifndef MICA_VISIBLE_H
#define MICA_VISIBLE_H

#include "base/base.h"

// Length of the UTF-8 sequence at s, of n bytes at least one, with its code point; 0: there is none.
size_t visible_decode(const char *s, size_t n, unsigned *code);
bool visible_hidden(unsigned code); // new lines and tabs are not
// The same text with such characters as \u{202e}, and bytes that are no UTF-8 as U+FFFD.
void visible_add(struct str *out, const char *s, size_t n);
// Text that is shown for the sequence at s: itself, or what is in `room`. Its own length in *len, that of what stands for it is returned.
int visible_shown(const char *s, size_t n, char room[16], const char **text, size_t *len);
void visible_print(FILE *f, const char *s); // takes no memory

#endif
