#pragma once

#include <memory>
#include <prometheus/exposer.h>
#include <string>

#include "core/base/status.h"
#include "server/metrics.h"

namespace tenure {

// Serves /metrics over HTTP.
class MetricsServer {
 public:
  // Listens at "host:port"; port 0: any that is free. BACKEND if the machine refuses.
  static StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                        std::shared_ptr<Metrics> metrics);

  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // Where it really listens.
  const std::string& address() const { return address_; }

 private:
  MetricsServer(std::unique_ptr<prometheus::Exposer> exposer, std::string address,
                std::shared_ptr<Metrics> metrics);

  const std::shared_ptr<Metrics> metrics_;
  const std::string address_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace tenure
