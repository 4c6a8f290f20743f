// A model's memory goes to its successor: in place, without a copy, or segment by segment.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include "core/base/clock.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/models.h"
#include "tests/e2e/tenured.h"
#include "tests/e2e/traces.h"
#include "tests/support/test_backend.h"

namespace tenure {
namespace {

using client::BackendCounters;
using client::Reuse;

constexpr uint64_t kGranule = uint64_t{2} << 20;
constexpr uint64_t kSegment = uint64_t{8} << 20;
#ifdef TENURE_SANITIZED
constexpr int kHandOvers = 100;
#else
constexpr int kHandOvers = 1000;
#endif
constexpr int kWarmUp = 20;

ModelParameters Narrow() { return {.architecture = Architecture::kMoe, .target = MiB(39)}; }
ModelParameters Wider() {
  ModelParameters parameters = Narrow();
  parameters.wider_layer = 1;
  return parameters;
}

// Of one backend's counters, all that a change of hands must leave alone.
std::string Text(const BackendCounters& counters) {
  return std::to_string(counters.segments_created) + " created, " +
         std::to_string(counters.segments_destroyed) + " destroyed, " +
         std::to_string(counters.exports) + " exported";
}

// How often the driver was asked, by daemon and clients, for what a hand-over does without.
std::map<std::string, uint64_t> MemoryCalls() {
  std::map<std::string, uint64_t> calls;
  for (const char* entry :
       {"cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemRelease",
        "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle", "cuMemAddressReserve",
        "cuMemAddressFree"}) {
    calls[entry] = DriverCallsOf(entry);
  }
  return calls;
}

// Whether the process has that many descriptors open, but for one that it just uses.
testing::AssertionResult SettlesAt(pid_t pid, size_t fds) {
  if (Eventually([&] { return FdsOf(pid) == fds; })) return testing::AssertionSuccess();
  return testing::AssertionFailure() << FdsOf(pid) << " fds instead of " << fds;
}

// The sizes of a region's segments: standard ones, and powers of two of the granule for the rest.
std::multiset<uint64_t> SegmentsOf(uint64_t region_bytes) {
  std::multiset<uint64_t> sizes;
  uint64_t left = (region_bytes + kGranule - 1) / kGranule * kGranule;
  for (; left >= kSegment; left -= kSegment) sizes.insert(kSegment);
  for (uint64_t size = kSegment / 2; size >= kGranule; size /= 2) {
    if ((left & size) != 0) sizes.insert(size);
  }
  return sizes;
}

class HandOverTest : public ::testing::Test {
 protected:
  BackendCounters Backend() const { return client_.Status()->devices.at(0).backend_counters; }

  client::LoadResult Load(const std::string& name, const ModelFile& file) const {
    auto loaded = client_.Load({.name = name, .path = file.path, .acquire = true});
    if (!loaded.ok()) throw std::runtime_error(loaded.status().ToString());
    return *std::move(loaded);
  }

  const Tenured daemon_{TenuredSettings{.capacity = "64MiB"}};
  const Client client_ = daemon_.Connect();
  const ModelFile a_ = WriteModel(daemon_, "a", Narrow(), 1);
};

// Field case 10.
TEST_F(HandOverTest, ASuccessorOfTheSameArchitectureTakesTheMemoryInPlace) {
  const ModelFile b = WriteModel(daemon_, "b", Narrow(), 2);
  const Client other = daemon_.Connect("other");
  client::LoadResult a = Load("a", a_);
  auto others = other.Acquire({.name = "a"});
  ASSERT_TRUE(others.ok()) << others.status();
  const std::byte* const base = a.lease->base();
  const std::byte* const others_base = others->base();
  const uint64_t generation = a.lease->generation();
  ASSERT_TRUE(a.lease->Release().ok());
  ASSERT_TRUE(others->Release().ok());
  ASSERT_TRUE(client_.Unload("a").ok());
  const std::string before = Text(Backend());

  const client::LoadResult loaded = Load("b", b);
  EXPECT_EQ(loaded.reuse, Reuse::kAdopted);
  EXPECT_EQ(loaded.bytes_copied, loaded.model.tensor_bytes);
  EXPECT_EQ(loaded.segments_created, 0u);
  EXPECT_EQ(loaded.lease->base(), base);
  EXPECT_EQ(loaded.lease->region_id(), a.model.region_id);
  EXPECT_EQ(loaded.lease->generation(), generation + 1);
  EXPECT_EQ(Difference(*loaded.lease, b), "");

  // Who kept the mapping of the predecessor needs no new one.
  const auto again = other.Acquire({.name = "b"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->base(), others_base);
  EXPECT_EQ(again->generation(), generation + 1);
  EXPECT_EQ(Difference(*again, b), "");
  EXPECT_EQ(Text(Backend()), before);
}

// Field case 17.
TEST_F(HandOverTest, AThousandHandOversTakeNoFdAndLeaveTheDriverAlone) {
  const ModelParameters small = {.target = MiB(1)};
  const std::vector<ModelFile> files = {WriteModel(daemon_, "even", small, 1),
                                        WriteModel(daemon_, "odd", small, 2)};
  const std::vector<std::string> names = {"even", "odd"};
  const Client other = daemon_.Connect("other");
  std::string backend;
  std::map<std::string, uint64_t> calls;
  size_t daemons_fds = SIZE_MAX;
  size_t own_fds = SIZE_MAX;
  for (int i = 0; i < kWarmUp + kHandOvers; ++i) {
    const auto turn = static_cast<size_t>(i % 2);
    client::LoadResult loaded = Load(names[turn], files[turn]);
    ASSERT_TRUE(i == 0 || loaded.reuse == Reuse::kAdopted) << i;
    auto others = other.Acquire({.name = names[turn]});
    ASSERT_TRUE(others.ok()) << others.status();
    if (i % 100 < 2) {
      ASSERT_EQ(Difference(*others, files[turn]), "") << i;
    }
    if (i < kWarmUp) {
      backend = Text(Backend());
      calls = MemoryCalls();
      // The first ones still come before connections and threads are made.
      daemons_fds = i < kWarmUp / 2 ? SIZE_MAX : std::min(daemons_fds, FdsOf(daemon_.pid()));
      own_fds = i < kWarmUp / 2 ? SIZE_MAX : std::min(own_fds, FdsOf(getpid()));
    } else {
      ASSERT_TRUE(SettlesAt(daemon_.pid(), daemons_fds)) << i;
      ASSERT_TRUE(SettlesAt(getpid(), own_fds)) << i;
    }
    ASSERT_TRUE(loaded.lease->Release().ok());
    ASSERT_TRUE(others->Release().ok());
    ASSERT_TRUE(client_.Unload(names[turn]).ok());
  }
  EXPECT_EQ(Text(Backend()), backend);
  EXPECT_EQ(MemoryCalls(), calls);
}

TEST_F(HandOverTest, AModelThatComesBackIsRevivedWithoutCopyingAByte) {
  client::LoadResult first = Load("a", a_);
  const std::byte* const base = first.lease->base();
  const uint64_t generation = first.lease->generation();
  ASSERT_TRUE(first.lease->Release().ok());
  ASSERT_TRUE(client_.Unload("a").ok());
  const std::string before = Text(Backend());

  const client::LoadResult loaded = Load("a", a_);
  EXPECT_EQ(loaded.reuse, Reuse::kRevived);
  EXPECT_EQ(loaded.bytes_copied, 0u);
  EXPECT_EQ(loaded.phases.read.count(), 0);
  EXPECT_EQ(loaded.lease->base(), base);
  EXPECT_EQ(loaded.lease->generation(), generation);
  EXPECT_EQ(Text(Backend()), before);
  EXPECT_EQ(Difference(*loaded.lease, a_), "");
}

TEST_F(HandOverTest, AFileWithOtherBytesIsNeverRevived) {
  client::LoadResult first = Load("a", a_);
  ASSERT_TRUE(first.lease->Release().ok());
  ASSERT_TRUE(client_.Unload("a").ok());
  const ModelFile changed = WriteModel(daemon_, "a", Narrow(), 3);

  const client::LoadResult loaded = Load("a", changed);
  EXPECT_EQ(loaded.reuse, Reuse::kAdopted);
  EXPECT_EQ(loaded.lease->revision(), first.model.revision + 1);
  EXPECT_EQ(Difference(*loaded.lease, changed), "");
}

// Field case 8.
TEST_F(HandOverTest, AWiderArchitectureIsRecycledAndCreatesOnlyWhatIsMissing) {
  const ModelFile wider = WriteModel(daemon_, "wider", Wider(), 2);
  client::LoadResult a = Load("a", a_);
  const std::multiset<uint64_t> had = SegmentsOf(a.model.region_bytes);
  ASSERT_TRUE(a.lease->Release().ok());
  ASSERT_TRUE(client_.Unload("a").ok());
  const BackendCounters before = Backend();

  const client::LoadResult loaded = Load("wider", wider);
  EXPECT_EQ(loaded.reuse, Reuse::kRecycled);
  EXPECT_EQ(loaded.reclaimed, std::vector<std::string>{"a@1"});
  std::multiset<uint64_t> missing = SegmentsOf(loaded.model.region_bytes);
  const size_t needed = missing.size();
  for (const uint64_t size : had) {
    if (const auto same = missing.find(size); same != missing.end()) missing.erase(same);
  }
  EXPECT_EQ(loaded.segments_created, missing.size());
  EXPECT_EQ(loaded.segments_reused, needed - missing.size());
  const BackendCounters after = Backend();
  EXPECT_EQ(after.segments_created - before.segments_created, missing.size());
  EXPECT_EQ(after.bytes_created - before.bytes_created,
            std::accumulate(missing.begin(), missing.end(), uint64_t{0}));
  EXPECT_EQ(Difference(*loaded.lease, wider), "");
}

// Field case 7.
TEST_F(HandOverTest, AnUnloadWithHoldersSaysWhoDefersIt) {
  client::LoadResult a = Load("a", a_);
  const auto unloaded = client_.Unload("a");
  ASSERT_TRUE(unloaded.ok()) << unloaded.status();
  EXPECT_EQ(unloaded->state, client::ModelState::kDraining);
  EXPECT_EQ(unloaded->freed_bytes, 0u);
  EXPECT_EQ(unloaded->deferred_bytes, a.model.region_bytes);
  ASSERT_EQ(unloaded->holders.size(), 1u);
  EXPECT_EQ(unloaded->holders[0].session_id, client_.session_id());
  EXPECT_FALSE(client_.Acquire({.name = "a"}).ok());
  EXPECT_EQ(Difference(*a.lease, a_), "");
  ASSERT_TRUE(a.lease->Release().ok());
  EXPECT_EQ(client_.Get("a")->state, client::ModelState::kRetained);
}

// Field case 10.
TEST_F(HandOverTest, TheReportedPhasesOfALoadAddUpToItsTotal) {
  const client::LoadPhases phases = Load("a", a_).phases;
  std::chrono::nanoseconds sum{};
  for (const auto phase :
       {phases.open, phases.parse, phases.place, phases.read, phases.copy, phases.publish}) {
    EXPECT_GE(phase.count(), 0);
    sum += phase;
  }
  EXPECT_GT(phases.read.count(), 0);
  EXPECT_LE(sum, phases.total);
  EXPECT_LE(phases.total - sum, phases.total / 4 + std::chrono::milliseconds(50));
}

// Field case 10.
TEST_F(HandOverTest, ALoadThatCanNeverFitIsRefusedAtOnce) {
  ModelParameters huge = Narrow();
  huge.target = MiB(80);
  const ModelFile file = WriteModel(daemon_, "huge", huge, 1);
  const SteadyClock clock;
  const Instant start = clock.Now();
  const auto loaded = client_.Load({.name = "huge", .path = file.path});
  EXPECT_EQ(ErrorReason(loaded.status()), "CAPACITY") << loaded.status();
  EXPECT_LT(clock.Now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace tenure
