// The blocks of scopes.

#include <algorithm>
#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/local_pool.h"
#include "client/cpp/pool_guard.h"

namespace tenure::client {
namespace {

constexpr uint64_t kLeastBlock = uint64_t{64} << 10;
// So many states are kept for later scopes.
constexpr size_t kSpares = 64;

constexpr uint64_t kGranuleMask = LocalPool::kGranule - 1;

}  // namespace

std::unique_ptr<ScopeState> LocalPool::OpenScope(BufferKind kind) {
  std::unique_ptr<ScopeState> scope;
  if (!forked()) {
    Guard guard(*this);
    if (!spare_scopes_.empty()) {
      scope = std::move(spare_scopes_.back());
      spare_scopes_.pop_back();
    }
  }
  if (scope == nullptr) scope = std::make_unique<ScopeState>();
  scope->pool = shared_from_this();
  scope->kind = kind;
  scope->recorded = recording();
  return scope;
}

absl::Status LocalPool::AcquireFor(ScopeState& scope, uint64_t bytes, uint64_t alignment,
                                   const CallOptions& options, PoolBlock& block) {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckRequest(bytes, alignment, scope.kind));
  if (!scope.recorded && !forked()) {
    uint64_t so_far = 0;
    for (const PoolBlock& earlier : scope.blocks) so_far += earlier.bytes;
    Guard guard(*this);
    Part& part = PartOf(scope.kind);
    // As much as each of the last two scopes used, then a quarter of what there is, or as much of
    // that as is free in one piece.
    uint64_t wanted =
        scope.blocks.empty() ? std::min(part.scope_hint, options_.range_bytes) : so_far / 4;
    wanted = std::max(wanted, kLeastBlock);
    DrainSome();
    if (!valid_.load(std::memory_order_relaxed) || !part.line.empty()) wanted = 0;
    for (; wanted > bytes; wanted /= 2) {
      const Request request{.bytes = wanted, .alignment = alignment, .kind = scope.kind};
      if (Take(request, block)) return absl::OkStatus();
    }
  }
  return Acquire(bytes, alignment, scope.kind, options, block);
}

absl::Status LocalPool::ReleaseScope(std::unique_ptr<ScopeState>& scope, uint64_t used_to,
                                     std::span<const Fence> fences) {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckFences(fences));
  // Outlives the lock.
  const std::shared_ptr<LocalPool> self = std::move(scope->pool);
  std::sort(
      scope->readers.begin(), scope->readers.end(),
      [](const ScopeState::Reader& a, const ScopeState::Reader& b) { return a.offset < b.offset; });
  std::sort(scope->blocks.begin(), scope->blocks.end(),
            [](const PoolBlock& a, const PoolBlock& b) { return a.offset < b.offset; });
  Guard guard(*this);
  DrainSome();
  uint64_t used = 0;
  size_t reader = 0;
  for (const PoolBlock& block : scope->blocks) {
    const bool last = block.offset < used_to && used_to <= block.offset + block.bytes;
    const uint64_t block_used_to = last ? used_to : block.offset + block.bytes;
    used += block_used_to - block.offset;
    RetireBlockOf(*scope, block, block_used_to, fences, reader);
    CountDown();
  }
  if (recorder_.on()) recorder_.Released();
  Part& part = PartOf(scope->kind);
  part.scope_hint = std::min(used, part.last_scope);
  part.last_scope = used;
  scope->blocks.clear();
  scope->DropReaders();
  scope->fences.clear();
  if (spare_scopes_.size() < kSpares) spare_scopes_.push_back(std::move(scope));
  scope = nullptr;
  return absl::OkStatus();
}

void LocalPool::RetireBlockOf(ScopeState& scope, PoolBlock block, uint64_t used_to,
                              std::span<const Fence> fences, size_t& reader) {
  const std::vector<ScopeState::Reader>& readers = scope.readers;
  const uint64_t block_end = block.offset + block.bytes;
  const bool is_read = reader < readers.size() && readers[reader].offset < block_end;
  if (used_to < block_end && (is_read || !fences.empty())) {
    const PoolBlock used = CutFront(block, used_to - block.offset);
    Retire(std::exchange(block, used), {});
  }
  while (reader < readers.size() && readers[reader].offset < block.offset + block.bytes) {
    // Those that share a byte keep what they have in common.
    const uint64_t begin = readers[reader].offset & ~kGranuleMask;
    uint64_t end = begin;
    scope.fences.assign(fences.begin(), fences.end());
    do {
      end = std::max(end, (readers[reader].end + kGranuleMask) & ~kGranuleMask);
      scope.fences.push_back(readers[reader].fence);
      ++reader;
    } while (reader < readers.size() && readers[reader].offset < end);
    if (begin > block.offset) Retire(CutFront(block, begin - block.offset), fences);
    const bool all = end == block.offset + block.bytes;
    Retire(CutFront(block, end - block.offset), scope.fences);
    if (all) return;
  }
  Retire(block, fences);
}

PoolBlock LocalPool::CutFront(PoolBlock& block, uint64_t bytes) {
  if (bytes == block.bytes) return block;
  OffsetAllocator::Block front = block.block();
  const OffsetAllocator::Block rest =
      PartOf(block.kind).allocator.Split(front, tenure::Bytes(bytes));
  const PoolBlock cut = PoolBlock::Of(front, block.kind, block.note());
  block = PoolBlock::Of(rest, block.kind, block.note());
  return cut;
}

void LocalPool::ReleaseScopeNever(std::unique_ptr<ScopeState> scope) {
  const std::shared_ptr<LocalPool> self = std::move(scope->pool);
  if (forked()) return;
  Guard guard(*this);
  for (const PoolBlock& block : scope->blocks) {
    pending_.HoldForEver(block);
    CountDown();
  }
}

}  // namespace tenure::client
