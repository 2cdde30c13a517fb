/* meeting.h - declarations shared by the kernels of collective operators (meet.cuh) and the host. CUDA text has this file in front of meet.cuh. */
#if defined __CUDACC__ || !defined MICA_CUDA_MEETING_H /* a C++ source may have the CUDA text in several namespaces */
#define MICA_CUDA_MEETING_H

enum meeting_how { MEETING_SUM, MEETING_GATHER, MEETING_SCATTER }; /* all_reduce, all_gather, reduce_scatter */
enum { MEETING_MOST_RANKS = 8, MEETING_MOST_BLOCKS = 128, MEETING_THREADS = 256 };
enum { MEETING_WORD = 16, MEETING_DATA = 12, MEETING_HEAD = 32768 }; /* bytes of a word, of its data, and of exchange memory before the words */
enum { MEETING_OTHERS = 255 };                                       /* in `told`: another rank failed */

struct meet_world {             /* the world as seen by one rank; an argument of the kernels */
  char *at[MEETING_MOST_RANKS]; /* exchange memory of each rank, in this GPU's address space */
  unsigned *told;               /* in host memory: 0; 1 + the rank that was waited for too long; or MEETING_OTHERS */
  unsigned long long patience;  /* time limit of a poll in nanoseconds */
  int rank, ranks;
};

#endif
