// This is what the files behind it need in CUDA: they are C for the host, their lines that include others are left out, and NVRTC has no
// headers. "static" makes their functions the device's.
#define NUM double
#ifdef __CUDACC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#ifndef INFINITY
#define INFINITY __longlong_as_double(0x7ff0000000000000ll)
#endif
#define static static __device__
#endif
