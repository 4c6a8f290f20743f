#pragma once

#include "tests/bench/samples.h"

namespace tenure::bench {

// What one allocation or one free costs the offset allocator, beside best, first and worst fit over
// the standard library's maps and beside malloc, which all serve the same requests: with so many
// blocks live, a random one is freed and one of another size takes its place. For each count of
// live blocks, and each ALLOCATOR:
//
//   ALLOCATOR_COUNT_ns             nanoseconds per operation, half of what such a pair takes
//   ALLOCATOR_COUNT_pair_ns        nanoseconds per pair, the offset allocator's only
//   ALLOCATOR_COUNT_high_over_live  the end of the highest block that there ever was, as a multiple
//                                  of the most bytes that were ever live
//
// First fit serves a hundredth of the requests at a million blocks, for it takes as long as that;
// what it reached by then compares with nothing and is left out. malloc, which has memory behind
// it, is asked for 1/32768 of each size.
void AddAllocatorFigures(int rounds, Report& report);

}  // namespace tenure::bench
