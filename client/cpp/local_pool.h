#pragma once

#include <absl/status/status.h>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "client/cpp/buffer_recorder.h"
#include "client/cpp/cuda_events.h"
#include "client/cpp/deadline.h"
#include "client/cpp/fork_guard.h"
#include "client/cpp/pending_releases.h"
#include "client/cpp/pool_block.h"
#include "client/cpp/scope_state.h"
#include "client/cpp/segment_source.h"
#include "client/cpp/slot_shelves.h"
#include "client/cpp/spin_lock.h"
#include "client/cpp/timeline_state.h"
#include "client/cpp/use_peak.h"
#include "core/arena/offset_allocator.h"
#include "tenure/call_options.h"
#include "tenure/fence.h"

namespace tenure::client {

// Hands out the memory of a session's pool without a call. Each kind has segments and an allocator
// of its own, its part:
//
//   held = used + free, used = live + kept by fences
//
// Acquire takes what is free, fences that were reached considered, and grows the part if nothing
// fits. Who does not get memory at once waits in a line, one for each kind. Whatever frees memory,
// a release, an advance of a timeline, a growth, serves the lines in its own thread, first come
// first served; nobody gets past a line. Only the first of a line asks the source, for what it
// needs itself, one call for each kind at a time, outside the lock; the call is cancelled if other
// memory serves the one who made it. If all that is free in the part would not have been enough, it
// first gives back as many of its free segments as it will ask for: they did not serve, and would
// make the part larger than what is used. If it would have been, but lies in pieces, they stay, or
// growing would not end. If the source refuses, everything free is given back and the source asked
// again, and then every fence that may be reached is waited for. Only then is the refusal passed
// on.
//
// CUDA events tell nobody that they are reached: who waits asks, every 100 microseconds.
//
// Giving back: a segment that is wholly free leaves in Sweep if its part holds at least a segment
// more than the most that it used over the last idle_ttl (see UsePeak); those at the highest
// offsets leave first. So a part in which fragments are small holds, an idle_ttl and an eighth
// after its use fell, no more than its use since then, rounded up to segments. It leaves at once in
// GiveBack, whatever was used. In Sweep none leaves while somebody waits in the line of its part.
//
// Slots have memory of their own, see SlotShelves: each is a buffer that the daemon knows, so that
// it sees which sizes are in use. Idle ones leave as segments do, in GiveBack after them.
//
// In a forked child, which has neither the memory nor the threads, and where the lock may be held
// for ever, everything answers FORKED or does nothing, and never takes the lock.
//
// Thread-safe. Lock order: this, then a timeline's. Calls the source with no lock held.
class LocalPool final : public TimelineWatcher, public std::enable_shared_from_this<LocalPool> {
 public:
  struct Options {
    std::byte* base;  // where the range is mapped, aligned at kMostAlignment
    uint64_t range_bytes;
    uint64_t segment_bytes;  // a multiple of kMostAlignment
    Duration idle_ttl = std::chrono::seconds(10);
    Duration timeout = std::chrono::seconds(30);  // of calls that name none
  };
  static constexpr size_t kKinds = 3;
  static constexpr uint64_t kGranule = 256;
  // How often fences that nobody tells of are asked after while somebody waits.
  static constexpr Duration kPoll = std::chrono::microseconds(100);
  static constexpr uint64_t kMostAlignment = uint64_t{2} << 20;

  // For make_shared only: it must be shared to be told of advances.
  LocalPool(const Options& options, std::shared_ptr<SegmentSource> source,
            std::shared_ptr<CudaEvents> events);
  // Gives nothing back: what it still holds may still be read, and ends with the source.
  ~LocalPool() override;

  // --- For buffers. Sets `block`, field by field, for copying it whole would cost more than the
  // lock. INVALID_REQUEST; FORKED; the reason of Invalidate; what the source refuses;
  // DEADLINE_EXCEEDED, CANCELLED.
  absl::Status Acquire(uint64_t bytes, uint64_t alignment, BufferKind kind,
                       const CallOptions& options, PoolBlock& block);
  // Frees the block once all fences are reached. An error changes nothing: INVALID_REQUEST for what
  // is no fence, CUDA_UNAVAILABLE. REQUIRES: `block` is live.
  absl::Status Release(const PoolBlock& block, std::span<const Fence> fences);
  // Keeps the block for as long as the pool lives. REQUIRES: `block` is live.
  void ReleaseNever(const PoolBlock& block);

  // --- For scopes. `scope` is in use by one thread.
  std::unique_ptr<ScopeState> OpenScope(BufferKind kind);
  // A block for `bytes` and more buffers that will come: larger, if that is free.
  absl::Status AcquireFor(ScopeState& scope, uint64_t bytes, uint64_t alignment,
                          const CallOptions& options, PoolBlock& block);
  // Frees every byte of its blocks that no reader needs; `used_to` is where the last one's use
  // ends. Errors as in Release, and then `scope` is left as it is.
  absl::Status ReleaseScope(std::unique_ptr<ScopeState>& scope, uint64_t used_to,
                            std::span<const Fence> fences);
  // Keeps all its blocks for as long as the pool lives.
  void ReleaseScopeNever(std::unique_ptr<ScopeState> scope);
  absl::Status CheckFences(std::span<const Fence> fences) const;

  // --- For slots. Memory that was in a slot of this size before, or else a new buffer of the
  // daemon's. If that refuses, first everything free is given back, and then fences are waited for.
  // Errors as in Acquire; RELEASED once it is closed.
  absl::Status AcquireSlot(uint64_t bytes, uint64_t alignment, const CallOptions& options,
                           PoolBlock& block);
  // As Release, with `readers` beside the fences: such as were checked before, and whose timelines
  // the caller refers to.
  absl::Status ReleaseRead(const PoolBlock& block, std::span<const Fence> readers,
                           std::span<const Fence> fences);
  // FORKED; the reason of Invalidate.
  absl::Status CheckUsable() const;
  // RELEASED: what AcquireSlot says of a pool that is closed.
  static absl::Status PoolGone();
  // Without the lock. REQUIRES: CheckFences was OK.
  bool IsReached(const Fence& fence) const { return pending_.IsReached(fence); }

  // --- For recordings. RECORDING if one is under way.
  absl::Status StartRecording();
  std::vector<RecordedBuffer> FinishRecording();

  // --- For the session.
  // Gives back what has not been used for idle_ttl, and serves who waits for CUDA events if nobody
  // else does. To be called several times in an eighth of idle_ttl.
  void Sweep(Instant now);
  // Gives back up to `bytes`, rounded up to segments, at once. Returns how many bytes it gave.
  uint64_t GiveBack(uint64_t bytes);
  // The pool is lost, for a reason as in errors.h: whoever waits and every Acquire from now on
  // fails with it, and nothing is given back any more. The first reason stays.
  void Invalidate(std::string_view reason);
  // The BufferPool is gone. Lives on while blocks are live, or fences of timelines may be reached;
  // gives back what is free now, and the rest in Sweep as it becomes free. CUDA events are not
  // asked after any more: before its memory is unmapped the device is waited for.
  void Close();
  // True once it is closed and everything was given back: nobody needs it any more.
  bool done() const;

  // Whether buffers should go through Acquire each by itself, for they are noted.
  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  bool valid() const { return valid_.load(std::memory_order_acquire) && !forked(); }
  bool forked() const { return fork_guard_.forked(); }
  std::byte* base() const { return options_.base; }
  Duration timeout() const { return options_.timeout; }
  uint64_t held_bytes() const;
  uint64_t used_bytes() const;

  // Threads that wait for memory.
  size_t waiting() const;
  // CHECKs the invariants. Linear.
  void Validate() const;

  void OnAdvance() override;

 private:
  struct Request {
    uint64_t bytes;
    uint64_t alignment;
    BufferKind kind;
  };
  // A thread in Acquire that does not get memory at once. On its stack.
  struct Waiter {
    explicit Waiter(const Request& wanted) : request(wanted) {}
    const Request request;
    PoolBlock block;       // if it is granted
    bool granted = false;  // it has left the line then
    bool nudged = false;   // something has changed for it
    bool growing = false;  // it asks the source now
    std::stop_source stop_growing;
    std::condition_variable_any changed;
  };
  // What one kind has.
  struct Part {
    explicit Part(Duration idle_ttl) : peak(idle_ttl) {}
    OffsetAllocator allocator;
    uint64_t used = 0;
    uint64_t held = 0;
    UsePeak peak;
    std::deque<Waiter*> line;
    bool growing = false;     // a thread asks the source
    uint64_t last_scope = 0;  // what the last scope used
    uint64_t scope_hint = 0;  // what each of the last two did, so that a giant does not count
  };
  // Holds the lock. Calls, once it lets go of it, whoever must not be called with it.
  class Guard;
  // What the next unlock does.
  struct Deferred {
    std::vector<uint64_t> leaving;  // segments
    std::vector<uint64_t> buffers;  // of slots
    std::vector<std::stop_source> stops;
    std::shared_ptr<LocalPool> self;
  };

  // All below require the lock.
  Part& PartOf(BufferKind kind) { return parts_[static_cast<size_t>(kind)]; }
  absl::Status CheckRequest(uint64_t bytes, uint64_t alignment, BufferKind kind) const;
  bool Take(const Request& request, PoolBlock& block);
  void Free(const PoolBlock& block);
  // Serves the lines after memory became free.
  void Serve();
  void ServeLine(Part& part);
  void DrainSome();
  void DrainAll();
  // A live block is not live any more.
  void CountDown();
  // Ends with the next unlock if it is closed and nobody needs it any more.
  void LetGo();
  bool Needed() const { return live_ != 0 || pending_.MayAdvance(); }

  absl::Status AcquireSlowly(Guard& guard, const Request& request, const CallOptions& options,
                             PoolBlock& block);
  void Enter(Waiter& waiter);
  void Leave(Waiter& waiter);
  void Nudge(Part& part);
  // Waits for memory, a word, or the time. Unlocks meanwhile.
  void Wait(Guard& guard, Waiter& waiter, Deadline deadline, const std::stop_token& cancel);
  // Asks the source for what `waiter` needs and adds it. Unlocks meanwhile.
  absl::Status Grow(Guard& guard, Waiter& waiter, Deadline deadline, const std::stop_token& cancel);
  absl::Status AddSegments(const Request& request, const SegmentSource::Grown& grown);
  void PollEvents(const std::stop_token& stop);
  absl::Status AddSlot(uint64_t bytes, uint64_t alignment, const SegmentSource::Granted& granted,
                       PoolBlock& block);

  // Takes wholly free segments out of a part, at most `most` of them; returns their bytes. The next
  // unlock gives them back.
  uint64_t TakeOut(Part& part, uint64_t most);
  uint64_t TakeOutAll();
  // The same for idle memory of slots.
  uint64_t TakeOutSlots(uint64_t most);

  // Frees a block once all fences are reached.
  void Retire(const PoolBlock& block, std::span<const Fence> fences);
  // Takes the first `bytes` off a block. REQUIRES: it has as many, if not more.
  PoolBlock CutFront(PoolBlock& block, uint64_t bytes);
  // Retires a block of a scope, which is used up to `used_to`, and moves `reader` past its readers.
  void RetireBlockOf(ScopeState& scope, PoolBlock block, uint64_t used_to,
                     std::span<const Fence> fences, size_t& reader);
  absl::Status LostError() const;
  Deferred& Defer() {
    is_deferred_ = true;
    return deferred_;
  }

  const Options options_;
  const std::shared_ptr<SegmentSource> source_;
  const ForkGuard fork_guard_;

  std::atomic<bool> valid_ = true;
  std::atomic<bool> recording_ = false;

  mutable SpinLock lock_;
  // All below guarded by lock_, but for PendingReleases::Check.
  bool is_deferred_ = false;  // there is something in deferred_
  bool closed_ = false;
  size_t waiting_ = 0;  // threads in all lines
  uint64_t live_ = 0;   // blocks
  BufferRecorder recorder_;
  PendingReleases pending_;
  std::array<Part, kKinds> parts_;
  SlotShelves shelves_;
  std::map<uint64_t, BufferKind> segments_;  // by offset
  std::string lost_;                         // the reason, empty while valid
  std::shared_ptr<LocalPool> self_;          // while it is needed and the BufferPool is gone
  std::vector<std::unique_ptr<ScopeState>> spare_scopes_;
  Deferred deferred_;
};

}  // namespace tenure::client
