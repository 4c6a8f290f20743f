// What tenurectl draws of a memory map, without a daemon.

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "client/cli/map_text.h"
#include "client/cli/memory_map.h"
#include "client/cli/pickle.h"
#include "client/cli/top_screen.h"
#include "client/cli/torch_snapshot.h"
#include "proto/map_page/map_page.h"

namespace tenure::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A device of 1 GiB of weights with three regions and 64 MiB of runtime memory with one pool; as
// the daemon writes it, 64-bit numbers as strings and all.
constexpr char kMap[] =
    R"({"schema": 1, "version": "0.1.0", "boot_id": "00112233445566778899aabbccddeeff",
  "time": "2026-11-30T20:44:16.5Z", "uptime": "93.5s",
  "sessions": [{"session_id": "1", "program": "server", "instance": "a", "uid": 0, "pid": 7},
               {"session_id": "2", "program": "batch", "instance": "b", "uid": 0, "pid": 8}],
  "devices": [{"name": "gpu:0", "backend": "cuda", "uuid": "GPU-1", "total_bytes": "2147483648",
    "foreign_bytes": "0", "lost": "",
    "counters": {"loads": "3", "copied_bytes": "1073741824", "leases_granted": "10", "buffers_granted": "100"},
    "arenas": [
      {"ledger": {"arena": "weights", "capacity": "1073741824", "leased": "268435456", "idle": "134217728",
          "retained": "134217728", "cached": "67108864", "unbacked": "469762048", "free": "536870912",
          "reserved": "603979776", "allocated": "402653184", "requested": "402653184",
          "largest_free": "536870912", "fragmentation_ratio": 0},
       "regions": [
         {"region_id": "1", "model": "shop/ranker", "revision": "3", "holding": "HOLDING_LEASED",
          "architecture_key": "0123456789abcdef0123456789abcdef", "generation": "2", "bytes": "268435456",
          "tensor_bytes": "268430000", "segments": [{"size": "67108864", "count": "4"}],
          "holders": [{"session_id": "1", "leases": 2, "mapped": true, "lease_expires_in": "12.5s"},
                      {"session_id": "2", "leases": 1, "mapped": true, "lease_expires_in": "20s"}]},
         {"region_id": "2", "model": "b", "revision": "1", "holding": "HOLDING_IDLE", "generation": "1",
          "architecture_key": "ffff", "bytes": "134217728", "tensor_bytes": "134217728"},
         {"region_id": "3", "model": "old", "revision": "1", "holding": "HOLDING_RETAINED", "generation": "1",
          "architecture_key": "ffff", "bytes": "134217728", "tensor_bytes": "134217728", "expires_in": "61s"}],
       "cached": [{"size": "67108864", "count": "1"}]},
      {"ledger": {"arena": "runtime", "capacity": "67108864", "leased": "10485760", "pooled": "6291456",
          "unbacked": "50331648", "free": "56623104", "reserved": "16777216", "allocated": "10485760",
          "requested": "10000000", "largest_free": "50331648", "fragmentation_ratio": 0.111},
       "pools": [{"pool_id": "4", "session_id": "1", "live": true, "lease_expires_in": "30s",
          "segment_bytes": "8388608",
          "segments": [{"offset": "0", "state": "POOL_SEGMENT_STATE_OPEN", "mapped": true},
                       {"offset": "8388608", "state": "POOL_SEGMENT_STATE_OPEN", "mapped": true}],
          "buffers": [{"buffer_id": "1", "kind": "BUFFER_KIND_ACTIVATION", "offset": "0", "size": "2097152",
                       "requested": "2000000", "age": "1.5s"},
                      {"buffer_id": "2", "kind": "BUFFER_KIND_IO", "offset": "6291456", "size": "8388608",
                       "requested": "8000000", "age": "75s"}]}]}]}]})";

MemoryMap Map() { return *ReadMap(kMap); }

TEST(CliMapTest, ReadsWhatTheDaemonWrites) {
  const MemoryMap map = Map();
  ASSERT_EQ(map.devices.size(), 1u);
  const MapRegion& region = map.devices[0].arenas[0].regions[0];
  EXPECT_EQ(region.model, "shop/ranker");
  EXPECT_EQ(region.state, "leased");
  EXPECT_EQ(region.bytes, uint64_t{256} << 20);
  EXPECT_EQ(region.left, std::chrono::seconds(20));
  EXPECT_EQ(map.devices[0].arenas[0].regions[2].left, std::chrono::seconds(61));
  EXPECT_EQ(map.devices[0].arenas[1].pools[0].used_bytes(), uint64_t{10} << 20);
  EXPECT_EQ(map.NameOf(2), "batch/b");
  EXPECT_EQ(map.NameOf(9), "a session that ended");
}

TEST(CliMapTest, WhatIsNoMapIsRefusedWhateverItIs) {
  for (const char* text : {"", "{}", "[]", "null", "{\"schema\": 1}", "nonsense",
                           R"({"schema": 2, "boot_id": "", "devices": []})",
                           R"({"schema": 1, "boot_id": "", "devices": [7]})",
                           R"({"schema": 1, "boot_id": "", "devices": [{"arenas": [{}]}]})",
                           R"({"schema": 1, "boot_id": "", "devices": [{"total_bytes": "much"}]})",
                           R"({"schema": 1, "boot_id": "", "uptime": "soon", "devices": []})",
                           R"({"schema": 1, "boot_id": 7, "devices": []})"}) {
    EXPECT_EQ(ReadMap(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(CliMapTest, FindsAMapInADump) {
  const std::string map = kMap;
  EXPECT_TRUE(ReadMap(*FindMap(map)).ok());
  EXPECT_TRUE(ReadMap(*FindMap("{\"events\": [], \"state\": {\"map\": " + map + "}}")).ok());
  std::string line = map;
  std::erase(line, '\n');
  const absl::StatusOr<std::string> last =
      FindMap("{\"event\": 1}\n" + line + "\n{\"event\": 2}\n");
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_TRUE(ReadMap(*last).ok());
  EXPECT_EQ(FindMap("{\"events\": []}").status().code(), absl::StatusCode::kNotFound);
}

TEST(CliMapTest, DrawsAnArenaToScale) {
  EXPECT_EQ(DrawArena(Map().devices[0].arenas[0], 80),
            "           one character is 16 MiB\n"
            "         0 [shop/ranker ##][b oooo][old --]====............................\n");
  EXPECT_EQ(DrawArena(Map().devices[0].arenas[1], 80),
            "           one character is 1 MiB\n"
            "         0 ##~~~~########~~................................................\n");
  // Half as wide, twice as high.
  EXPECT_EQ(DrawArena(Map().devices[0].arenas[1], 45),
            "           one character is 1 MiB\n"
            "         0 ##~~~~########~~................\n"
            "    32 MiB ................................\n");
}

TEST(CliMapTest, SaysWhatIsTooSmallToBeSeen) {
  MapArena arena = Map().devices[0].arenas[0];
  arena.ledger.capacity = uint64_t{1} << 50;
  arena.ledger.unbacked = arena.ledger.capacity - (uint64_t{576} << 20);
  EXPECT_THAT(DrawArena(arena, 80), HasSubstr("; 3 models are too small to be seen\n"));
}

TEST(CliMapTest, TheBarIsAsLongAsItIsSaidToBe) {
  const client::ArenaLedger ledger = Map().devices[0].arenas[0].ledger;
  EXPECT_EQ(LedgerBar(ledger, 16), "[####oo--=.......]");
  EXPECT_EQ(LedgerBar(ledger, 8), "[##o-=...]");
  EXPECT_EQ(LedgerBar(client::ArenaLedger(), 4), "[    ]");
}

TEST(CliMapTest, TellsOfEachRegionAndPoolAsFarAsThereAreRows) {
  const std::string all = DrawMap(Map(), 80, 20);
  EXPECT_THAT(all, HasSubstr("# leased 266 MiB   o idle 128 MiB   - retained 128 MiB"));
  EXPECT_THAT(all,
              HasSubstr("shop/ranker@3  leased    256 MiB  01234567           2   20 s  server/a "
                        "(2), batch/b (1)\n"));
  EXPECT_THAT(all, HasSubstr("old@1          retained  128 MiB  ffff               1  1m01s\n"));
  EXPECT_THAT(all, HasSubstr("server/a  16 MiB  10 MiB         2        2   1m15s   30 s\n"));
  EXPECT_THAT(all,
              HasSubstr("weights: 384 MiB of 1 GiB allocated, 512 MiB free, fragmentation 0.000"));
  const std::string some = DrawMap(Map(), 80, 1);
  EXPECT_THAT(some, Not(HasSubstr("old@1")));
  EXPECT_THAT(some, HasSubstr("and 2 smaller ones; --rows shows more\n"));
}

TEST(CliTopTest, ShowsArenasModelsAndSessions) {
  const std::string screen = TopScreen(Map(), nullptr, {.size = {100, 40}, .all = true});
  EXPECT_THAT(screen, HasSubstr("gpu:0  cuda, 2 GiB\n"));
  EXPECT_THAT(screen, HasSubstr("  weights  [#"));
  EXPECT_THAT(screen, HasSubstr("384 MiB of 1 GiB, free 512 MiB, frag 0.000\n"));
  EXPECT_THAT(screen,
              HasSubstr("shop/ranker@3  gpu:0   leased    256 MiB   20 s  server/a x2, batch/b\n"));
  EXPECT_THAT(screen, HasSubstr("server/a   1  256 MiB       2  16 MiB  10 MiB        2\n"));
  EXPECT_THAT(screen, HasSubstr("batch/b    2  256 MiB       1     0 B     0 B        0\n"));
  EXPECT_THAT(screen, Not(HasSubstr("\033")));
}

TEST(CliTopTest, RatesAreThoseBetweenTwoMapsOfOneBoot) {
  const MemoryMap before = Map();
  MemoryMap now = Map();
  now.uptime += std::chrono::seconds(2);
  now.devices[0].counters.loads += 1;
  now.devices[0].counters.leases_granted += 24;
  now.devices[0].counters.buffers_granted += 5000;
  now.devices[0].counters.copied_bytes += uint64_t{1} << 30;
  const TopOptions options{.size = {110, 40}};
  EXPECT_THAT(TopScreen(now, &before, options),
              HasSubstr("   loads 0.5/s   leases 12/s   buffers 2.5k/s   copied 512 MiB/s\n"));
  now.boot_id = "another";
  EXPECT_THAT(TopScreen(now, &before, options), Not(HasSubstr("/s ")));
}

TEST(CliTopTest, FitsTheScreen) {
  MemoryMap map = Map();
  std::vector<MapRegion>& regions = map.devices[0].arenas[0].regions;
  for (int i = 0; i < 100; ++i) regions.push_back(regions[0]);
  for (const ScreenSize size : {ScreenSize{80, 24}, ScreenSize{40, 12}, ScreenSize{200, 60}}) {
    const std::string screen = TopScreen(map, nullptr, {.size = size});
    size_t lines = 1;
    size_t column = 0;
    for (const char c : screen) {
      column = c == '\n' ? 0 : column + 1;
      lines += c == '\n' ? 1 : 0;
      EXPECT_LE(column, size.columns);
    }
    EXPECT_LE(lines, size.lines) << screen;
  }
  EXPECT_THAT(TopScreen(map, nullptr, {.size = {80, 24}}), HasSubstr(" more\n"));
}

TEST(CliMapTest, APageWithAMapCannotBeBrokenOutOf) {
  const std::string page = MapPage("{\"model\": \"</script><script>alert(1)\"}");
  EXPECT_THAT(page, HasSubstr("\\u003c/script>\\u003cscript>alert(1)"));
  EXPECT_THAT(page, Not(HasSubstr("</script><script>alert(1)")));
}

TEST(CliPickleTest, WritesTheOpcodesOfProtocolTwo) {
  PickleWriter out;
  out.BeginDictionary();
  out.Key("a");
  out.BeginList();
  out.Int(-1);
  out.Int(int64_t{1} << 46);
  out.Bool(true);
  out.EndList();
  out.EndDictionary();
  using std::string_literals::operator""s;
  EXPECT_EQ(out.Finish(), "\x80\x02}(X\x01\0\0\0"s +
                              "a](J\xff\xff\xff\xff\x8a\x08\0\0\0\0\0\x40\0\0\x88"s + "eu.");
}

// torch_snapshot_test.py loads it as PyTorch's viewer does.
TEST(CliTorchSnapshotTest, IsWrittenForPython) {
  std::ofstream file(TORCH_SNAPSHOT_FILE, std::ios::binary);
  file << TorchSnapshot(Map());
  EXPECT_TRUE(file.flush().good());
}

}  // namespace
}  // namespace tenure::cli
