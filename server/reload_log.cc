#include "server/reload_log.h"

#include <chrono>

namespace tenure {
namespace {

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

ReloadLog::ReloadLog() {
  const MutexLock lock(mutex_);
  totals_.last_time = SecondsSince1970();
}

void ReloadLog::Record(const Status& result) {
  const MutexLock lock(mutex_);
  ++(result.ok() ? totals_.ok : totals_.failed);
  totals_.last_ok = result.ok();
  totals_.last_time = SecondsSince1970();
}

ReloadLog::Totals ReloadLog::Get() const {
  const MutexLock lock(mutex_);
  return totals_;
}

}  // namespace tenure
