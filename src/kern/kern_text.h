// The keywords of the text form, shared by kern_print.c and kern_parse.c.
#ifndef MICA_KERN_TEXT_H
#define MICA_KERN_TEXT_H

#include "kern/kern.h"

enum { KERN_AXES_NAMES = 3 };
extern const char *const kern_axes_name[KERN_AXES_NAMES];

#endif
