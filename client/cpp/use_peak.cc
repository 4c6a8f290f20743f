#include "client/cpp/use_peak.h"

#include <algorithm>

namespace tenure::client {

void UsePeak::Pass(Instant now, uint64_t used) {
  if (began_ == Instant{}) began_ = now;
  for (size_t i = 0; i < parts_.size() && now - began_ >= part_; ++i) {
    now_ = (now_ + 1) % parts_.size();
    parts_[now_] = used;
    began_ += part_;
  }
  // All parts are new.
  if (now - began_ >= part_) began_ = now;
}

uint64_t UsePeak::peak() const { return *std::max_element(parts_.begin(), parts_.end()); }

}  // namespace tenure::client
