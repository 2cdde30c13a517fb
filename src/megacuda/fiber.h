// Fibers: cooperative threads of a kernel on a CPU. Precedes mega_shim.h in the printed text.
#include <setjmp.h>
#include <ucontext.h>

struct fiber {
  ucontext_t context; // its start
  jmp_buf left;       // point at which it continues; _longjmp, unlike swapcontext, makes no system call
  bool begun, done;
};
static jmp_buf fiber_scheduler;

static void fiber_open(fiber &x, void *stack, size_t bytes, void (*begin)())
{
  x.begun = x.done = false;
  getcontext(&x.context);
  x.context.uc_stack.ss_sp = stack, x.context.uc_stack.ss_size = bytes, x.context.uc_link = NULL;
  makecontext(&x.context, begin, 0);
}
// Returns from the running fiber x to the scheduler, until it resumes x.
static inline void fiber_yield(fiber &x)
{
  if (!_setjmp(x.left)) _longjmp(fiber_scheduler, 1);
}
__attribute__((noinline)) static void fiber_resume(fiber &x)
{
  if (_setjmp(fiber_scheduler)) return;
  if (x.begun) _longjmp(x.left, 1);
  x.begun = true;
  setcontext(&x.context);
}
