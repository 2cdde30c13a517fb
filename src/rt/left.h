// left: what calls that were left (left.c) need of modules and buffers. Private to this component.
#ifndef MICA_RT_LEFT_H
#define MICA_RT_LEFT_H

#include "rt/rt.h"

struct left_call; // one that nobody waits for

// It uses the module or the buffers until its end; they belong to no guard from here on.
void module_hold(struct module *m, struct left_call *c);
struct left_call *module_left(const struct module *m); // NULL: there was none
void buffers_hold(struct buffers *b, struct left_call *c);
// Frees them, from whichever thread.
void module_drop(struct module *m);
void buffers_drop(struct buffers *b);
// Before they are closed. True: the call is under way, and closes them at its end. c may be NULL.
bool call_takes_module(struct left_call *c);
bool call_takes_buffers(struct left_call *c);

#endif
