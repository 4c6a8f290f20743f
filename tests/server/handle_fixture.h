#pragma once

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <spdlog/spdlog.h>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/device/host_device.h"
#include "core/store/store.h"
#include "server/handle_server.h"
#include "server/session_registry.h"
#include "tests/server/handle_client.h"
#include "tests/support/manual_clock.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace tenure {

// A handle server before a real Store on host memory in Segments of 2 MiB. Leases follow a clock
// that the test moves; sockets follow the real one.
class HandleTest : public ::testing::Test {
 protected:
  static constexpr Bytes kSegment = MiB(2);
  static constexpr Bytes kRuntime = MiB(16);

  HandleTest() {
    spdlog::set_level(spdlog::level::off);
    options_.path = directory_ / "handle.sock";
    options_.boot_id = RandomHex(16);
  }

  // Starts everything; call once, after client processes were made.
  void Start(Bytes capacity = MiB(32)) {
    StatusOr<std::unique_ptr<Device>> device =
        MakeHostDevice({.name = "host:0", .total = capacity});
    ASSERT_TRUE(device.ok()) << device.status();
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(*std::move(device));
    StartOn(std::move(devices));
  }
  // The same on other Devices.
  void StartOn(std::vector<std::unique_ptr<Device>> devices) {
    std::vector<DeviceOptions> list;
    for (std::unique_ptr<Device>& device : devices) {
      DeviceStoreOptions store;
      store.weights_capacity = device->info().total;
      store.segment_size = kSegment;
      store.default_lease_ttl = std::chrono::seconds(30);
      RuntimeStoreOptions runtime;
      runtime.capacity = kRuntime;
      runtime.segment_size = kSegment;
      list.push_back({.device = std::move(device), .store = store, .runtime = runtime});
    }
    store_ = std::make_unique<Store>(
        StoreOptions{.model_roots = {ModelRoot{.name = "models", .path = directory_.path()}}},
        std::move(list), clock_, *files_, Events());
    const Status started = server_.Start(*store_, options_);
    ASSERT_TRUE(started.ok()) << started;
  }

  void TearDown() override {
    if (store_ == nullptr) return;
    for (const auto& device : store_->devices()) device->Validate();
    for (const auto& runtime : store_->runtimes()) runtime->Validate();
    server_.Stop();
  }

  // What hears of Sessions.
  virtual SessionEvents& Events() { return server_; }

  // Brings a model online whose Segments have their own index as first byte, and that goes as soon
  // as nobody needs it.
  void Load(const std::string& name, uint32_t segments, const std::string& device = "host:0") {
    const Bytes size = kSegment * segments;
    const std::string header =
        SafetensorsHeader({TensorSpec{.name = "t", .dtype = DType::kU8, .shape = {size.count()}}});
    const std::string file =
        directory_.WriteFile(name + ".safetensors", RawSafetensors(header, ""));
    const uint64_t begin = std::filesystem::file_size(file);
    std::filesystem::resize_file(file, begin + size.count());
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    for (uint32_t i = 0; i < segments; ++i) {
      bytes.seekp(static_cast<std::streamoff>(begin + (kSegment * i).count()));
      bytes.put(static_cast<char>(i));
    }
    bytes.close();
    LoadRequest request;
    request.name = name;
    request.path = "models/" + name + ".safetensors";
    request.device = device;
    request.retain_ttl = Duration::zero();
    const StatusOr<LoadResult> loaded = store_->Load(request, {});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
  }

  LeaseId Acquire(SessionId session, const std::string& name) {
    const StatusOr<GrantedLease> lease = store_->Acquire(session, name, "", std::nullopt, "");
    EXPECT_TRUE(lease.ok()) << lease.status();
    return lease.ok() ? lease->id : LeaseId();
  }

  // Moves the leases' clock and does what is due.
  void Pass(Duration span) {
    clock_.Advance(span);
    store_->Tick();
  }

  bool IsLive(SessionId session, LeaseId lease) const {
    return store_->devices()[0]->IsLive(session, lease);
  }
  Ledger LedgerNow() const { return store_->devices()[0]->TakeSnapshot().ledger; }
  bool Reaches(SessionId session, SessionState state) const {
    return Eventually([&] {
      const std::optional<SessionView> view = registry_.Find(session);
      return view.has_value() && view->state == state;
    });
  }
  // The Session is remembered no more.
  bool Ends(SessionId session) const {
    return Eventually([&] { return !registry_.Find(session).has_value(); });
  }

  HandleClient Connect() const { return HandleClient(options_.path); }

  TempDir directory_;
  ManualClock clock_;
  SteadyClock real_clock_;
  std::unique_ptr<FileLayer> files_ = MakePosixFileLayer();
  HandleServerOptions options_;
  SessionRegistry registry_{clock_, 300};
  HandleServer server_{registry_, real_clock_};
  std::unique_ptr<Store> store_;
};

}  // namespace tenure
