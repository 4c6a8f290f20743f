#include "server/map_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/page_token.h"

namespace tenure {
namespace {

constexpr char kList[] = "memory map";

}  // namespace

MapParts::MapParts(const MapMaker& maker, const Clock& clock, size_t part_size)
    : maker_(maker), clock_(clock), part_size_(part_size) {}

v1::GetMemoryMapResponse MapParts::Cut(uint64_t id, const std::string& bytes, size_t offset) const {
  v1::GetMemoryMapResponse response;
  response.set_part(bytes.substr(offset, part_size_));
  const size_t next = offset + response.part().size();
  if (next < bytes.size()) {
    response.set_next_page_token(MakePageToken(kList, {std::to_string(id), std::to_string(next)}));
  }
  return response;
}

StatusOr<v1::GetMemoryMapResponse> MapParts::Get(const v1::GetMemoryMapRequest& request) {
  if (request.page_token().empty()) {
    std::string bytes = maker_.Take().SerializeAsString();
    if (bytes.size() <= part_size_) return Cut(0, bytes, 0);
    const MutexLock lock(mutex_);
    if (kept_.size() == kMostMaps) kept_.pop_front();
    kept_.push_back({.id = ++last_id_, .bytes = std::move(bytes), .until = clock_.Now() + kKept});
    return Cut(last_id_, kept_.back().bytes, 0);
  }
  TENURE_ASSIGN_OR_RETURN(const std::vector<std::string> fields,
                          ReadPageToken(kList, request.page_token()));
  if (fields.size() != 2) return ReadPosition("").status();
  TENURE_ASSIGN_OR_RETURN(const uint64_t id, ReadPosition(fields[0]));
  TENURE_ASSIGN_OR_RETURN(const uint64_t offset, ReadPosition(fields[1]));
  const MutexLock lock(mutex_);
  std::erase_if(kept_, [now = clock_.Now()](const Kept& kept) { return kept.until <= now; });
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [id](const Kept& kept) { return kept.id == id; });
  if (found == kept_.end() || offset >= found->bytes.size()) {
    return Error(Reason::kInvalidRequest, "the map is not kept any more: ask for a new one");
  }
  v1::GetMemoryMapResponse response = Cut(id, found->bytes, offset);
  if (response.next_page_token().empty()) kept_.erase(found);
  return response;
}

}  // namespace tenure
