#include "server/rpc_metrics.h"

#include <absl/strings/str_cat.h>
#include <tenure/v1/admin.pb.h>
#include <tenure/v1/lease.pb.h>
#include <tenure/v1/model.pb.h>
#include <tenure/v1/plan.pb.h>
#include <utility>

#include "core/base/clock.h"

namespace tenure {
namespace {

using grpc::experimental::InterceptionHookPoints;

constexpr std::array<const char*, 17> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

// Lives as long as one call.
class CallInterceptor final : public grpc::experimental::Interceptor {
 public:
  CallInterceptor(RpcMetrics& metrics, const char* path)
      : metrics_(metrics), path_(path), began_(clock_.Now()) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      metrics_.Record(path_, batch->GetSendStatus().error_code(), clock_.Now() - began_);
    }
    batch->Proceed();
  }

 private:
  RpcMetrics& metrics_;
  const SteadyClock clock_;
  const char* const path_;
  const Instant began_;
};

class CallInterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallInterceptorFactory(RpcMetrics& metrics) : metrics_(metrics) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override {
    return new CallInterceptor(metrics_, call->method());
  }

 private:
  RpcMetrics& metrics_;
};

}  // namespace

RpcMetrics::RpcMetrics() {
  for (const google::protobuf::FileDescriptor* file :
       {v1::GetStatusRequest::descriptor()->file(), v1::LoadModelRequest::descriptor()->file(),
        v1::AcquireWeightsRequest::descriptor()->file(),
        v1::PlanBuffersRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const google::protobuf::ServiceDescriptor& service = *file->service(i);
      for (int j = 0; j < service.method_count(); ++j) {
        const std::string& name = service.method(j)->name();
        methods_.push_back(std::make_unique<Method>(name));
        by_path_[absl::StrCat("/", service.full_name(), "/", name)] = methods_.back().get();
      }
    }
  }
  methods_.push_back(std::make_unique<Method>("other"));
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
RpcMetrics::NewInterceptorFactory() {
  return std::make_unique<CallInterceptorFactory>(*this);
}

void RpcMetrics::Record(std::string_view path, grpc::StatusCode code, Duration duration) {
  const auto found = by_path_.find(path);
  Method& method = found == by_path_.end() ? *methods_.back() : *found->second;
  // A client library may make codes up.
  const auto known = std::min<size_t>(static_cast<size_t>(code), kCodes);
  const MutexLock lock(method.mutex);
  ++method.calls.by_code[known == kCodes ? size_t{grpc::StatusCode::UNKNOWN} : known];
  method.calls.durations.Record(duration);
}

void RpcMetrics::AddTo(MetricFamilies& out) const {
  static_assert(kCodeNames.size() == kCodes);
  FamilyBuilder calls("tenure_rpcs_total", "gRPC calls that ended.",
                      prometheus::MetricType::Counter);
  FamilyBuilder durations("tenure_rpc_duration_seconds",
                          "gRPC calls, from their request to the status that answers.",
                          prometheus::MetricType::Histogram);
  for (const auto& method : methods_) {
    Calls now;
    {
      const MutexLock lock(method->mutex);
      now = method->calls;
    }
    for (size_t code = 0; code < kCodes; ++code) {
      calls.Add({{"method", method->name}, {"code", kCodeNames[code]}}, now.by_code[code]);
    }
    durations.Add({{"method", method->name}}, now.durations);
  }
  calls.MoveTo(out);
  durations.MoveTo(out);
}

}  // namespace tenure
