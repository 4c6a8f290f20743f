#pragma once

#include <stop_token>
#include <string>
#include <thread>

#include "tenure/client.h"

namespace tenure::cli {

// Draws on stderr how far the load of a model is, in a thread of its own, until it is destroyed.
// Shows nothing for loads that are over at once, or if stderr is no terminal.
class ProgressBar {
 public:
  // `client` outlives it.
  ProgressBar(const client::Client& client, std::string name, std::string device);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

 private:
  std::stop_source stop_;
  std::thread thread_;
};

// "[=====>    ]  52%  1.20 GiB of 2.30 GiB  1.10 GiB/s  read".
std::string ProgressLine(const client::LoadProgress& progress);

}  // namespace tenure::cli
