#pragma once

#include <cstdint>
#include <functional>

#include "tenure/buffer_pool.h"
#include "tests/bench/samples.h"

namespace tenure::bench {

// A pool to measure.
struct MeasuredPool {
  tenure::BufferPool pool;
  // Every size is divided by it, so that it fits what is behind the pool. Its cost is the same.
  uint64_t divisor;
};

// What a buffer of a pool costs that has memory already, in nanoseconds:
//
//   pool_ns              an acquire and a release, over 500 sizes, with a fence that is reached 16
//                        requests later
//   pool_allocator_ns    what of that the offset allocator takes, measured by itself
//   pool_2_threads_ns    the same on each of two threads at once, where half of the buffers are
//                        released by the other thread
//   pool_no_fence_ns     an acquire and a release without a fence
//   scope_ns             a buffer of a scope of 100, of opening and releasing it 1/100 included
void AddPoolFigures(int rounds, const std::function<MeasuredPool()>& open, Report& report);

}  // namespace tenure::bench
