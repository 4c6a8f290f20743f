#pragma once

#include <memory>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sstream>
#include <string>

namespace tenure {

// Catches what is logged at level info and above while it lives: "level message" in a line each.
// Not to be used while another thread logs for the first time.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()), level_(spdlog::get_level()) {
    const auto logger = std::make_shared<spdlog::logger>(
        "", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(logger);
    spdlog::set_level(spdlog::level::info);
  }
  ~CapturedLog() {
    spdlog::set_default_logger(before_);
    spdlog::set_level(level_);
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
  spdlog::level::level_enum level_;
};

}  // namespace tenure
