// forked: calls of generated code in a child of fork (forked.c). Private to this component.
#ifndef MICA_RT_FORKED_H
#define MICA_RT_FORKED_H

#include <stdbool.h>

void forked_watch(void); // before the first call of generated code; may be called again
bool forked_here(void);  // whether this thread is the one that went on in a child of fork
// f(arg) in a thread of its own, waited for; its status, or an errno where there is no such thread.
int forked_call(int (*f)(void *), void *arg);

#endif
