// Fibers: threads of a kernel that take turns on a CPU. The text stands ahead of mega_shim.h where a kernel is written.
#include <setjmp.h>
#include <ucontext.h>

struct fiber {
  ucontext_t context; // where it begins
  jmp_buf left;       // where it goes on: unlike swapcontext, _longjmp makes no system call
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
// Back to the scheduler, until it resumes x, which is running.
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
