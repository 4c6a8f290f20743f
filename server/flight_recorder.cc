#include "server/flight_recorder.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <spdlog/spdlog.h>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "server/event_messages.h"
#include "server/json.h"
#include "server/translate.h"

namespace tenure {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSchema = 1;
constexpr char kPrefix[] = "refusal-";

Status CannotWrite(const fs::path& path, const std::error_code& error) {
  return Error(Reason::kBackend, "cannot write " + path.string() + ": " + error.message());
}

}  // namespace

FlightRecorder::FlightRecorder(FlightRecorderOptions options, const Store& store,
                               const SessionRegistry& sessions, const RefusalLog& refusals,
                               const MapMaker& maps, const Clock& clock)
    : options_(std::move(options)),
      store_(store),
      sessions_(sessions),
      refusals_(refusals),
      maps_(maps),
      clock_(clock) {
  TENURE_CHECK(options_.kept >= 1);
  thread_ = std::thread([this] { Run(); });
}

FlightRecorder::~FlightRecorder() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void FlightRecorder::OnRefusal(RefusalId refusal) {
  const MutexLock lock(mutex_);
  if (due_.has_value() || clock_.Now() < next_) return;
  due_ = refusal;
  next_ = After(clock_.Now(), options_.interval);
  changed_.NotifyAll();
}

void FlightRecorder::Run() {
  MutexLock lock(mutex_);
  while (true) {
    while (!due_.has_value() && !closing_) changed_.Wait(mutex_);
    if (!due_.has_value()) return;
    const RefusalId refusal = *std::exchange(due_, std::nullopt);
    lock.Unlock();
    const StatusOr<std::string> written = Write(refusal);
    if (written.ok()) {
      spdlog::info("flight record written refusal={} path={}", refusal.value(), *written);
    } else {
      spdlog::warn("no flight record of refusal {}: {}", refusal.value(),
                   std::string(written.status().message()));
    }
    lock.Lock();
  }
}

StatusOr<std::string> FlightRecorder::Write(RefusalId refusal) const {
  v1::FlightRecord record;
  record.set_schema(kSchema);
  TENURE_ASSIGN_OR_RETURN(const Refusal found, refusals_.Find(refusal));
  *record.mutable_refusal() = ToProto(found, clock_.Now());
  *record.mutable_map() = maps_.Take();
  *record.mutable_events() =
      EventMessages(store_.event_log(), sessions_, clock_, 0, EventLog::kKept);

  std::error_code error;
  fs::create_directories(options_.directory, error);
  if (error) return CannotWrite(options_.directory, error);
  DropOldest();
  const fs::path path =
      fs::path(options_.directory) / (kPrefix + std::to_string(refusal.value()) + ".json");
  const fs::path part = path.string() + ".part";
  std::ofstream file(part, std::ios::trunc);
  file << ToJson(record);
  file.close();
  if (!file) {
    error.assign(errno, std::generic_category());
    std::error_code ignored;
    fs::remove(part, ignored);
    return CannotWrite(part, error);
  }
  fs::rename(part, path, error);
  if (error) return CannotWrite(path, error);
  return path.string();
}

// Leaves room for one more.
void FlightRecorder::DropOldest() const {
  std::vector<std::pair<fs::file_time_type, fs::path>> records;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(".json")) continue;
    records.emplace_back(entry.last_write_time(error), entry.path());
  }
  std::sort(records.begin(), records.end());
  const auto kept = static_cast<size_t>(options_.kept - 1);
  for (size_t i = 0; i + kept < records.size(); ++i) fs::remove(records[i].second, error);
}

}  // namespace tenure
