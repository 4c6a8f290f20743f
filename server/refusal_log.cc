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

  const MutexLock lock(mutex_);
  refusal.id = RefusalId(++last_id_);
  kept_.push_back(std::move(refusal));
  if (kept_.size() > kKept) kept_.pop_front();
  return WithValue(status, kRefusalIdValue, std::to_string(last_id_));
}

StatusOr<Refusal> RefusalLog::Find(RefusalId id) const {
  const MutexLock lock(mutex_);
  const uint64_t dropped = last_id_ - kept_.size();
  if (id.value() <= dropped || id.value() > last_id_) {
    return Error(Reason::kRefusalNotFound,
                 "there is no such refusal, or it is older than the last " + std::to_string(kKept) +
                     ", which are all that is kept: " + std::to_string(id.value()));
  }
  return kept_[id.value() - dropped - 1];
}

}  // namespace tenure
