#include "client/cli/progress_bar.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <unistd.h>
#include <utility>

#include "client/cli/format.h"

namespace tenure::cli {
namespace {

constexpr size_t kWidth = 30;
constexpr auto kPatience = std::chrono::milliseconds(300);
// Erases the line and returns to its beginning.
constexpr char kErase[] = "\r\033[K";

}  // namespace

std::string ProgressLine(const client::LoadProgress& progress) {
  const double part = progress.bytes_total == 0 ? 0
                                                : static_cast<double>(progress.bytes_done) /
                                                      static_cast<double>(progress.bytes_total);
  const double bounded = std::clamp(part, 0.0, 1.0);
  const auto filled = static_cast<size_t>(bounded * static_cast<double>(kWidth));
  std::string bar(filled, '=');
  if (filled < kWidth) bar += '>';
  bar.resize(kWidth, ' ');
  std::string percent = std::to_string(static_cast<int>(bounded * 100));
  percent.insert(0, 3 - std::min<size_t>(3, percent.size()), ' ');
  std::string line = "[" + bar + "] " + percent + "%  " + FormatBytes(progress.bytes_done) +
                     " of " + FormatBytes(progress.bytes_total);
  if (progress.bytes_per_second > 0) {
    line += "  " + FormatBytes(static_cast<uint64_t>(progress.bytes_per_second)) + "/s";
  }
  return line + "  " + progress.stage;
}

ProgressBar::ProgressBar(const client::Client& client, std::string name, std::string device) {
  if (isatty(STDERR_FILENO) == 0) return;
  thread_ = std::thread(
      [&client, name = std::move(name), device = std::move(device), stop = stop_.get_token()] {
        const auto start = std::chrono::steady_clock::now();
        bool drawn = false;
        const auto draw = [&](const client::ModelEvent& event) {
          if (event.progress && std::chrono::steady_clock::now() - start > kPatience) {
            std::cerr << kErase << ProgressLine(*event.progress) << std::flush;
            drawn = true;
          }
          return true;
        };
        // The load itself tells what went wrong; a bar that cannot be drawn is no error.
        client.Watch(name, device, draw, {.cancel = stop}).IgnoreError();
        if (drawn) std::cerr << kErase << std::flush;
      });
}

ProgressBar::~ProgressBar() {
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace tenure::cli
