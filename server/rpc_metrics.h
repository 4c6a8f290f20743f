#pragma once

#include <array>
#include <grpcpp/support/server_interceptor.h>
#include <grpcpp/support/status.h>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/duration_histogram.h"
#include "core/base/mutex.h"
#include "server/family_builder.h"

namespace tenure {

// Of calls: 0.1 ms to 105 s, times four.
inline constexpr std::array kCallBounds = {0.0001, 0.0004, 0.0016, 0.0064,  0.0256,  0.1024,
                                           0.4096, 1.6384, 6.5536, 26.2144, 104.8576};
using CallDurations = DurationHistogram<kCallBounds>;

// What gRPC calls came to, by method of the API: "LoadModel"; those of other services, like health,
// are "other". Thread-safe.
class RpcMetrics {
 public:
  RpcMetrics();

  // For a gRPC server that this outlives.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> NewInterceptorFactory();

  // A call of "/package.Service/Method" ended.
  void Record(std::string_view path, grpc::StatusCode code, Duration duration);

  void AddTo(MetricFamilies& out) const;

 private:
  static constexpr size_t kCodes = 17;
  struct Calls {
    std::array<uint64_t, kCodes> by_code{};
    CallDurations durations;
  };
  // Each method has a mutex of its own.
  struct Method {
    explicit Method(std::string name) : name(std::move(name)) {}
    const std::string name;
    mutable Mutex mutex;
    Calls calls ABSL_GUARDED_BY(mutex);
  };

  std::vector<std::unique_ptr<Method>> methods_;         // constant; `other` is the last
  std::map<std::string, Method*, std::less<>> by_path_;  // constant
};

}  // namespace tenure
