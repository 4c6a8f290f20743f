#include "server/log.h"

#include <memory>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <string>
#include <utility>

namespace tenure {
namespace {

void AppendEscaped(char c, bool json, spdlog::memory_buf_t& line) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (byte < 0x20 || byte == 0x7f) {
    for (const char each : {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15]})
      line.push_back(each);
    return;
  }
  if (json && (c == '"' || c == '\\')) line.push_back('\\');
  line.push_back(c);
}

// The message with its control characters escaped, for JSON with quotes and backslashes as well.
class EscapedMessage final : public spdlog::custom_flag_formatter {
 public:
  explicit EscapedMessage(bool json) : json_(json) {}

  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& line) override {
    for (const char c : message.payload) AppendEscaped(c, json_, line);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<EscapedMessage>(json_);
  }

 private:
  const bool json_;
};

}  // namespace

void StartLog(const LogConfig& log) {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "tenured", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::default_logger()->flush_on(spdlog::level::info);
  ChangeLog(log);
}

void ChangeLog(const LogConfig& log) {
  const bool json = log.format == LogFormat::kJson;
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<EscapedMessage>('*', json);
  formatter->set_pattern(json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":"%*"})"
                              : "%Y-%m-%dT%H:%M:%S.%eZ %-7l %*");
  // The logger stays, since others may be writing to it; it has one sink, which locks.
  spdlog::default_logger()->set_formatter(std::move(formatter));
  spdlog::default_logger()->set_level(spdlog::level::from_str(log.level));
}

}  // namespace tenure
