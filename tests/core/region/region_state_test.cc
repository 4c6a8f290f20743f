#include "core/region/region_state.h"

#include <gtest/gtest.h>

namespace tenure {
namespace {

using S = RegionState;

// One row for each state, one column for each event, in the order of the enums.
constexpr std::optional<S> kNo = std::nullopt;
constexpr std::optional<S> kExpected[kRegionStates][kRegionEvents] = {
    // publish, abandon, spoil, drain, retire, restore, adopt, reclaim, lose
    {S::kActive, S::kFreed, S::kEmpty, kNo, kNo, kNo, kNo, kNo, kNo},         // Loading
    {kNo, kNo, kNo, S::kDraining, S::kRetained, kNo, kNo, kNo, S::kLost},     // Active
    {kNo, kNo, kNo, kNo, S::kRetained, S::kActive, kNo, kNo, S::kLost},       // Draining
    {kNo, kNo, kNo, kNo, kNo, S::kActive, S::kLoading, S::kFreed, S::kLost},  // Retained
    {kNo, kNo, kNo, kNo, kNo, kNo, S::kLoading, S::kFreed, S::kLost},         // Empty
    {kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo},                            // Lost
    {kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo},                            // Freed
};

class RegionStateTest : public ::testing::TestWithParam<std::tuple<size_t, size_t>> {};

TEST_P(RegionStateTest, EveryCellOfTheTableIsAsDesigned) {
  const auto [state, event] = GetParam();
  EXPECT_EQ(NextState(static_cast<RegionState>(state), static_cast<RegionEvent>(event)),
            kExpected[state][event])
      << RegionStateName(static_cast<RegionState>(state)) << ", event " << event;
}

INSTANTIATE_TEST_SUITE_P(Cells, RegionStateTest,
                         ::testing::Combine(::testing::Range<size_t>(0, kRegionStates),
                                            ::testing::Range<size_t>(0, kRegionEvents)));

}  // namespace
}  // namespace tenure
