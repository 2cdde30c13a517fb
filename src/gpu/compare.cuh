// A candidate's output against the reference, or against another run of it. COMPARE_NUMBER(x, i, type) is element i of a type (gpu_compare.c).
// Each block leaves a sum of squares, the largest difference as a part of what is typical, and how many elements are not finite and ought to be.
extern "C" __global__ void compare(const void *x, const void *y, int64_t n, int64_t type, double typical, double largest, double *left)
{
  __shared__ double part[3][COMPARE_THREADS];
  const int me = threadIdx.x;
  double sum = 0, worst = 0, lost = 0;
  for (int64_t i = (int64_t)blockIdx.x * COMPARE_THREADS + me; i < n; i += (int64_t)gridDim.x * COMPARE_THREADS) {
    if (type < 0) { // words of two runs
      sum += ((const uint32_t *)x)[i] != ((const uint32_t *)y)[i];
      continue;
    }
    const double expected = ((const double *)y)[i], size = fabs(expected);
    if (!(size <= largest)) continue; // no value of the type is right
    const double value = compare_number(x, i, type), off = fabs(value - expected);
    if (!(fabs(value) <= 1.7e308)) {
      lost += 1;
      continue;
    }
    sum += off * off;
    if (off > 0) worst = fmax(worst, off / (size + typical));
  }
  part[0][me] = sum, part[1][me] = worst, part[2][me] = lost;
  for (int half = COMPARE_THREADS / 2; half; half /= 2) {
    __syncthreads();
    if (me >= half) continue;
    part[0][me] += part[0][me + half], part[2][me] += part[2][me + half];
    part[1][me] = fmax(part[1][me], part[1][me + half]);
  }
  if (!me)
    for (int k = 0; k < 3; k++) left[3 * (int64_t)blockIdx.x + k] = part[k][0];
}
