#include "client/cpp/survivors.h"

namespace tenure::client {

void Survivors::Set(const std::string& boot_id, uint64_t session_id, Memory memory) {
  const SessionKey key(boot_id, session_id);
  const std::lock_guard lock(mutex_);
  if (memory.weights.empty() && memory.runtime.empty()) {
    if (sessions_.erase(key) == 0) return;
  } else {
    sessions_[key] = std::move(memory);
  }
  ++version_;
  if (on_change_) on_change_();
}

Survivors::Report Survivors::MakeReport() const {
  const std::lock_guard lock(mutex_);
  Report report;
  report.version = version_;
  const auto add = [&](const std::string& boot_id, const std::string& device) {
    v1::SurvivingMemory& memory = *report.surviving.add_memories();
    memory.set_boot_id(boot_id);
    memory.set_device(device);
    return &memory;
  };
  for (const auto& [session, memory] : sessions_) {
    for (const auto& [device, bytes] : memory.weights) add(session.first, device)->set_bytes(bytes);
    for (const auto& [device, bytes] : memory.runtime) {
      add(session.first, device)->set_runtime_bytes(bytes);
    }
  }
  return report;
}

uint64_t Survivors::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

void Survivors::Follow(const void* who, std::function<void()> on_change) {
  const std::lock_guard lock(mutex_);
  follower_ = who;
  on_change_ = std::move(on_change);
}

void Survivors::Unfollow(const void* who) {
  const std::lock_guard lock(mutex_);
  if (follower_ != who) return;
  follower_ = nullptr;
  on_change_ = nullptr;
}

}  // namespace tenure::client
