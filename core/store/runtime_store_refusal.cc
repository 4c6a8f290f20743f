#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <algorithm>

#include "core/store/runtime_store.h"

// What is said of room for Buffers: why there is none, what would help, and whether there would be
// some.

namespace tenure {
namespace {

// Of what is largest in it.
BufferKind KindOf(const PoolRequest& request) {
  if (const auto* whole = std::get_if<SegmentsSpec>(&request.wanted)) return whole->kind;
  const auto& specs = std::get<std::vector<BufferSpec>>(request.wanted);
  return std::max_element(specs.begin(), specs.end(),
                          [](const auto& a, const auto& b) { return a.size < b.size; })
      ->kind;
}

std::string JoinBuffers(const std::vector<Buffer>& buffers) {
  return absl::StrJoin(buffers, ", ", [](std::string* out, const Buffer& buffer) {
    absl::StrAppend(out, "buffer ", buffer.id.value(), " (", FormatBytes(buffer.requested), ")");
  });
}

}  // namespace

// An empty Pool has its place for everything side by side: none does with less.
Bytes RuntimeStore::LeastBytes(const PoolRequest& request) const {
  Pool empty(PoolId(), request.session, shape_);
  const Pool::Placement placement = Place(request, empty);
  return placement.possible() ? shape_.segment_size * placement.missing.size() : kMostBytes;
}

Bytes RuntimeStore::Rounded(const PoolRequest& request) const {
  if (const auto* whole = std::get_if<SegmentsSpec>(&request.wanted)) {
    return AlignUp(whole->bytes, shape_.segment_size);
  }
  Bytes sum;
  for (const BufferSpec& spec : std::get<std::vector<BufferSpec>>(request.wanted)) {
    sum += AlignUp(spec.size, kBufferGranule);
  }
  return sum;
}

Pool* RuntimeStore::FindPool(SessionId session) {
  for (const PoolTable::Holding& holding : pools_.Holdings()) {
    if (holding.live && holding.session == session) return pools_.FindLive(holding.pool);
  }
  return nullptr;
}

Reason RuntimeStore::ReasonFor(const PoolRequest& request, const Pool& pool, bool promised) const {
  if (LeastBytes(request) > arena_.capacity()) return Reason::kCapacity;
  if (promised) return Reason::kReclaimPending;
  if (RequestedBytes(request) <= pool.bytes().free() + arena_.available())
    return Reason::kFragmented;
  return LedgerNow().allocated().zero() ? Reason::kCapacity : Reason::kHeldByLeases;
}

std::string RuntimeStore::HintFor(Reason reason, const PoolRequest& request,
                                  const Pool& pool) const {
  const std::string& device = device_.info().name;
  switch (reason) {
    case Reason::kBackend:
      return absl::StrCat("it fits once other programs use less of ", device,
                          ", or runtime is given no more than is there");
    case Reason::kReclaimPending:
      return "the bytes are on their way back, or somebody who came before waits for them: a call"
             " with a later deadline gets them";
    case Reason::kFragmented:
      return pool.AroundLargestHole(KindOf(request)).empty()
                 ? "it fits once whole segments of the own pool are free of buffers of other kinds"
                 : "it fits once the buffers beside the largest hole are released";
    case Reason::kCapacity:
      if (const Bytes least = LeastBytes(request); least > arena_.capacity()) {
        const std::string segments = absl::StrCat(
            "in whole segments of ", FormatBytes(shape_.segment_size), " it takes ",
            least == kMostBytes ? "more than a pool has places for" : FormatBytes(least));
        return absl::StrCat(segments, ": it can only fit if runtime gets more of ", device);
      }
      return "stranded bytes are free once whoever has maps or file descriptors of them lets go";
    default:
      break;
  }
  std::string hint = "it fits once the holders have released or given back as much as it lacks";
  if (!LedgerNow().quarantined.zero()) {
    absl::StrAppend(&hint, "; quarantined bytes come back once their holders unmap them or end");
  }
  return hint;
}

Status RuntimeStore::Explain(Reason reason, const PoolRequest& request, const Pool& pool,
                             const Status& cause) const {
  const Bytes needed = RequestedBytes(request);
  const Ledger ledger = LedgerNow();
  const Bytes own = pool.bytes().free();
  const Bytes largest = pool.LargestFree(arena_.available() / shape_.segment_size);
  std::vector<std::string> each;
  for (const PoolTable::Holding& holding : pools_.Holdings()) {
    const auto identity = identities_.find(holding.session);
    if (holding.bytes.segments.zero() || identity == identities_.end()) continue;
    each.push_back(
        absl::StrCat(identity->second.program, "/", identity->second.instance,
                     holding.live ? "" : " (quarantined)", " ",
                     FormatBytes(holding.live ? holding.bytes.blocks : holding.bytes.segments)));
  }
  const std::string holders = absl::StrJoin(each, ", ");
  const std::string neighbours = reason == Reason::kFragmented
                                     ? JoinBuffers(pool.AroundLargestHole(KindOf(request)))
                                     : std::string();
  const std::string hint = HintFor(reason, request, pool);

  std::string message = absl::StrCat("no runtime memory on ", device_.info().name, " for ",
                                     FormatBytes(needed), ": ");
  if (!cause.ok()) absl::StrAppend(&message, cause.message(), "; ");
  absl::StrAppend(&message, "capacity ", FormatBytes(ledger.capacity), ", free ",
                  FormatBytes(ledger.free()), " (", FormatBytes(own),
                  " of it in the own pool), leased ", FormatBytes(ledger.leased), ", quarantined ",
                  FormatBytes(ledger.quarantined), ", stranded ", FormatBytes(ledger.stranded),
                  "; the largest buffer that would fit now has ", FormatBytes(largest));
  if (!holders.empty()) absl::StrAppend(&message, "; held by ", holders);
  if (!neighbours.empty()) {
    absl::StrAppend(&message, "; beside the largest hole lie ", neighbours);
  }
  absl::StrAppend(&message, "; ", hint);
  ErrorValues values = {{"device", device_.info().name},
                        {"needed_bytes", absl::StrCat(needed.count())},
                        {"capacity_bytes", absl::StrCat(ledger.capacity.count())},
                        {"free_bytes", absl::StrCat(ledger.free().count())},
                        {"largest_free_bytes", absl::StrCat(ledger.largest_free.count())},
                        {"leased_bytes", absl::StrCat(ledger.leased.count())},
                        {"quarantined_bytes", absl::StrCat(ledger.quarantined.count())},
                        {"stranded_bytes", absl::StrCat(ledger.stranded.count())},
                        {"largest_buffer_bytes", absl::StrCat(largest.count())},
                        {"hint", hint}};
  if (!holders.empty()) values.emplace_back("holders", holders);
  if (!neighbours.empty()) values.emplace_back("neighbours", neighbours);
  const ErrorValues of_cause = DetailOf(cause).value_or(ErrorDetail{}).values;
  values.insert(values.end(), of_cause.begin(), of_cause.end());
  return Error(reason, message, values);
}

Status RuntimeStore::Refuse(const Waiter& waiter) {
  TENURE_ASSIGN_OR_RETURN(const Pool* const pool,
                          pools_.FindLive(waiter.request.session, waiter.pool));
  return Explain(ReasonFor(waiter.request, *pool, Promised(waiter)), waiter.request, *pool,
                 absl::OkStatus());
}

Status RuntimeStore::RefuseGrowth(const Waiter& waiter, const Status& cause) {
  const Bytes foreign = device_.foreign();
  Status noted = foreign.zero() ? cause : WithNote(cause, "used by others", FormatBytes(foreign));
  const Pool* const pool = pools_.FindLive(waiter.pool);
  if (pool == nullptr || !HasReason(cause, Reason::kBackend)) return noted;
  return Explain(Reason::kBackend, waiter.request, *pool, noted);
}

DeviceFit RuntimeStore::Fit(const PoolRequest& request) {
  const MutexLock lock(mutex_);
  const Ledger ledger = LedgerNow();
  DeviceFit fit{.device = device_.info().name,
                .needed = Rounded(request),
                .capacity = ledger.capacity,
                .free = ledger.free(),
                .largest_now = {},
                .largest = {},
                .explanation = {}};
  if (!lost_.ok()) {
    fit.verdict = FitVerdict::kDeviceLost;
    fit.explanation = std::string(lost_.message());
    return fit;
  }
  Pool unopened(PoolId(), request.session, shape_);
  Pool* const opened = FindPool(request.session);
  if (cordoned_ && opened == nullptr) {
    fit.verdict = FitVerdict::kCordoned;
    fit.explanation = std::string(RefuseCordoned(request).message());
    return fit;
  }
  Pool& pool = opened != nullptr ? *opened : unopened;
  fit.largest_now = pool.LargestFree(arena_.available() / shape_.segment_size);
  const Pool::Placement placement = Place(request, pool);
  GiveBack(request, pool, placement);
  const Bytes need = shape_.segment_size * placement.missing.size();

  // As if what nobody uses had come, of the own pool too.
  const std::vector<PoolSegmentId> unused = pools_.Unused();
  const Bytes to_come = BytesToCome() + shape_.segment_size * unused.size();
  std::vector<Bytes> own;
  for (const PoolSegmentId& id : unused) {
    if (id.pool == pool.id()) own.push_back(id.offset);
  }
  pool.SetAside(own);
  fit.largest = pool.LargestFree(to_come / shape_.segment_size);
  const Pool::Placement later = Place(request, pool);
  GiveBack(request, pool, later);
  pool.TakeBack(own);
  // As Serve has it: whoever came before keeps the room for itself.
  const bool behind = std::any_of(waiters_.begin(), waiters_.end(), [&](const Waiter* other) {
    return !placement.placed() && (other->request.session == request.session || Lacks(*other));
  });
  if (placement.possible() && need <= arena_.available() && !behind) {
    fit.explanation =
        placement.placed()
            ? "the session's pool has a place for it"
            : absl::StrCat("the pool takes ", FormatBytes(need), " more for it, and ",
                           FormatBytes(arena_.available()), " are there for the taking");
  } else if (later.possible() && shape_.segment_size * later.missing.size() <= to_come) {
    fit.verdict = FitVerdict::kAfterReclaim;
    fit.explanation = behind ? "it fits, behind those who wait already"
                             : "it fits once segments that nobody uses, or that are on their way"
                               " back, have come";
  } else {
    const Reason reason = ReasonFor(request, pool, /*promised=*/false);
    const bool never = LeastBytes(request) > arena_.capacity();
    fit.verdict = never ? FitVerdict::kNever : FitVerdict::kWhenReleased;
    fit.explanation = std::string(Explain(reason, request, pool, absl::OkStatus()).message());
  }
  return fit;
}

}  // namespace tenure
