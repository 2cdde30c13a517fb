"""The kernels that a call runs on a GPU, by torch's profiler."""
import collections

import torch

CALLS = 3


def kernels(call):
    """[(kernel, launches of one call, microseconds of one call)], the longest first. `call` must have been called before."""
    call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as run:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    count, us = collections.Counter(), collections.Counter()
    for event in run.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            count[event.name] += 1
            us[event.name] += event.time_range.elapsed_us()
    return [(name, count[name] / CALLS, us[name] / CALLS) for name in sorted(us, key=us.get, reverse=True)]
