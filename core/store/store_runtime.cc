#include <absl/strings/str_cat.h>
#include <algorithm>
#include <bit>

#include "core/store/store.h"

namespace tenure {
namespace {

// As many Buffers as one request has at most.
constexpr size_t kMostSpecs = 1000;

Status PoolNotFound(PoolId pool) {
  return Error(Reason::kLeaseNotFound, absl::StrCat("no such pool: ", pool.value()),
               {{"pool_id", absl::StrCat(pool.value())}});
}

Status CheckSpecs(const std::vector<BufferSpec>& specs) {
  if (specs.empty() || specs.size() > kMostSpecs) {
    return Error(Reason::kInvalidRequest,
                 absl::StrCat("from 1 to ", kMostSpecs, " buffers are acquired at a time, not ",
                              specs.size()));
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    const BufferSpec& spec = specs[i];
    if (spec.size.zero() || spec.size > kMostBytes) {
      return Error(Reason::kInvalidRequest,
                   absl::StrCat("buffer ", i, ": its size must be from 1 byte to ",
                                FormatBytes(kMostBytes), ", not ", spec.size.count()));
    }
    if (!std::has_single_bit(spec.alignment.count()) || spec.alignment > kMostAlignment) {
      return Error(Reason::kInvalidRequest,
                   absl::StrCat("buffer ", i, ": its alignment must be a power of two up to ",
                                FormatBytes(kMostAlignment), ", not ", spec.alignment.count()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status Store::CheckWanted(const PoolRequest& request) {
  if (const auto* specs = std::get_if<std::vector<BufferSpec>>(&request.wanted)) {
    return CheckSpecs(*specs);
  }
  const Bytes bytes = std::get<SegmentsSpec>(request.wanted).bytes;
  if (bytes <= kMostBytes) return absl::OkStatus();
  return Error(Reason::kInvalidRequest,
               absl::StrCat("a pool grows by at most ", FormatBytes(kMostBytes), ", not by ",
                            bytes.count()));
}

namespace {

Digest128 ParametersOf(const PoolRequest& request, const std::string& device) {
  Digester digester;
  digester.Add(device);
  if (const auto* specs = std::get_if<std::vector<BufferSpec>>(&request.wanted)) {
    for (const BufferSpec& spec : *specs) {
      digester.Add(spec.size.count());
      digester.Add(spec.alignment.count());
      digester.Add(static_cast<uint64_t>(spec.kind));
    }
  } else {
    const auto& whole = std::get<SegmentsSpec>(request.wanted);
    digester.Add(whole.bytes.count());
    digester.Add(static_cast<uint64_t>(whole.kind));
  }
  return digester.Finish();
}

}  // namespace

StatusOr<RuntimeStore*> Store::RuntimeFor(SessionId session, const std::string& device) const {
  RuntimeStore* best = nullptr;
  for (const auto& runtime : runtimes_) {
    if (!device.empty()) {
      if (runtime->device_info().name == device) return runtime.get();
      continue;
    }
    if (runtimes_.size() == 1 || runtime->UseBy(session).pools > 0) return runtime.get();
    const bool better =
        best == nullptr || (best->cordoned() && !runtime->cordoned()) ||
        (best->cordoned() == runtime->cordoned() && runtime->Available() > best->Available());
    if (better) best = runtime.get();
  }
  if (best != nullptr) return best;
  return Error(Reason::kDeviceNotFound, absl::StrCat("no such device: ", device),
               {{"device", device}});
}

StatusOr<PoolGrant> Store::AcquirePool(const PoolRequest& request, const std::string& device,
                                       const std::string& request_id, const CallLimits& limits) {
  TENURE_RETURN_IF_ERROR(CheckWanted(request));
  const SessionId session = request.session;
  return pool_requests_.Run(
      session, request_id, ParametersOf(request, device),
      [&]() -> StatusOr<PoolGrant> {
        TENURE_ASSIGN_OR_RETURN(RuntimeStore* const runtime, RuntimeFor(session, device));
        return runtime->Acquire(request, limits);
      },
      [&](const PoolGrant& earlier) { return Holds(session, earlier); },
      [&](const PoolGrant& unread) { TakeBack(session, unread); },
      [&] { return limits.Check(clock_.Now()); });
}

void Store::TakeBack(SessionId session, const PoolGrant& grant) {
  for (const Buffer& buffer : grant.buffers) (void)ReleaseBuffer(session, buffer.id);
  if (!grant.segments.empty()) (void)ShrinkPool(session, grant.pool.id, grant.segments);
}

Status Store::ReleasePoolRequest(SessionId session, const std::string& request_id) {
  const std::optional<PoolGrant> unread = pool_requests_.Withdraw(session, request_id);
  if (unread.has_value()) TakeBack(session, *unread);
  return absl::OkStatus();
}

Status Store::ReleaseBuffer(SessionId session, BufferId buffer) {
  for (const auto& runtime : runtimes_) {
    if (std::optional<Status> released = runtime->Release(session, buffer)) return *released;
  }
  return Error(Reason::kLeaseNotFound, absl::StrCat("no such buffer: ", buffer.value()),
               {{"buffer_id", absl::StrCat(buffer.value())}});
}

Status Store::ShrinkPool(SessionId session, PoolId pool, std::span<const Bytes> offsets) {
  for (const auto& runtime : runtimes_) {
    if (std::optional<Status> shrunk = runtime->Shrink(session, pool, offsets)) return *shrunk;
  }
  return PoolNotFound(pool);
}

StatusOr<ExportId> Store::BeginPoolExport(SessionId session, PoolId pool,
                                          std::span<const Bytes> offsets) {
  for (const auto& runtime : runtimes_) {
    if (const auto begun = runtime->BeginExport(session, pool, offsets)) return *begun;
  }
  return PoolNotFound(pool);
}

bool Store::Holds(SessionId session, const PoolGrant& grant) const {
  return std::any_of(runtimes_.begin(), runtimes_.end(),
                     [&](const auto& runtime) { return runtime->Holds(session, grant); });
}

}  // namespace tenure
