#include "server/refusal_log.h"

#include <utility>
#include <variant>

#include "server/errors.h"
#include "server/printable.h"

namespace tenure {
namespace {

// So that a thousand refusals of thousands of holders stay a few MiB.
constexpr size_t kMostText = 4096;
constexpr size_t kMostBuffers = 64;

bool IsSmall(const PoolRequest& request) {
  const auto* specs = std::get_if<std::vector<BufferSpec>>(&request.wanted);
  return specs == nullptr || specs->size() <= kMostBuffers;
}

}  // namespace

Status RefusalLog::Note(std::string_view method, SessionId session, const Status& status,
                        const PoolRequest* asked) {
  if (status.code() != absl::StatusCode::kResourceExhausted) return status;
  ErrorDetail detail = DetailOf(status).value_or(ErrorDetail{});
  for (auto& [name, value] : detail.values) value = Shorten(Printable(value), kMostText);
  const std::optional<SessionView> view = sessions_.Find(session);
  Refusal refusal{
      .id = {},
      .at = clock_.Now(),
      .method = std::string(method),
      .session = session,
      .program = view.has_value() ? view->identity.program : "",
      .instance = view.has_value() ? view->identity.instance : "",
      .reason = std::move(detail.reason),
      .message = Shorten(Printable({status.message().data(), status.message().size()}), kMostText),
      .values = std::move(detail.values),
      .asked = {}};
  if (asked != nullptr && IsSmall(*asked)) refusal.asked = *asked;

  RefusalId id;
  {
    const MutexLock lock(mutex_);
    id = RefusalId(++last_id_);
    refusal.id = id;
    kept_.push_back(std::move(refusal));
    if (kept_.size() > kKept) kept_.pop_front();
  }
  if (on_refusal_) on_refusal_(id);
  return WithValue(status, kRefusalIdValue, std::to_string(id.value()));
}

StatusOr<Refusal> RefusalLog::Find(RefusalId id) const {
  const MutexLock lock(mutex_);
  if (!id.valid() && !kept_.empty()) return kept_.back();
  const uint64_t dropped = last_id_ - kept_.size();
  if (id.value() <= dropped || id.value() > last_id_) {
    return Error(Reason::kRefusalNotFound,
                 "there is no such refusal, or it is older than the last " + std::to_string(kKept) +
                     ", which are all that is kept: " + std::to_string(id.value()));
  }
  return kept_[id.value() - dropped - 1];
}

}  // namespace tenure
