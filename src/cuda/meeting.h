/* meeting.h - what kernels in which ranks meet (meet.cuh) and the host agree on. CUDA text has this file in front of meet.cuh. */
#if defined __CUDACC__ || !defined MICA_CUDA_MEETING_H /* a C++ source may have the CUDA text in several namespaces */
#define MICA_CUDA_MEETING_H

enum meeting_how { MEETING_SUM, MEETING_GATHER, MEETING_SCATTER }; /* all_reduce, all_gather, reduce_scatter */
enum { MEETING_MOST_RANKS = 8, MEETING_MOST_BLOCKS = 128, MEETING_THREADS = 256 };
enum { MEETING_WORD = 16, MEETING_DATA = 12, MEETING_HEAD = 32768 }; /* bytes: of a word, of its data; of exchange memory before the words */
enum { MEETING_OTHERS = 255 };                                       /* told: another rank failed */

struct meet_world {             /* of a rank; an argument of the kernels */
  char *at[MEETING_MOST_RANKS]; /* exchange memory of each rank, as this GPU reaches it */
  unsigned *told;               /* of the host: 0, or what was waited for: a rank and 1, or MEETING_OTHERS */
  unsigned long long patience;  /* nanoseconds */
  int rank, ranks;
};

#endif
