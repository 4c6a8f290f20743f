#include "core/device/host_segment.h"

#include <absl/strings/str_cat.h>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <linux/memfd.h>
#include <span>
#include <sys/mman.h>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "core/base/unique_fd.h"
#include "core/device/huge_pages.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3
#endif

namespace tenure {
namespace {

// One call, since the last of them forbids any further: whoever else gets the fd of weights can
// read, and that is all; the map that the daemon made before goes on writing. What is runtime's can
// be written, and keeps its size.
int SealsOf(SegmentUse use) {
  constexpr int kSizeAndSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  return use == SegmentUse::kWeights ? kSizeAndSeals | F_SEAL_FUTURE_WRITE : kSizeAndSeals;
}

const char* NameOf(SegmentUse use) {
  return use == SegmentUse::kWeights ? "tenure-weights" : "tenure-runtime";
}

Status CallFailed(const std::string& call, Bytes size, int error) {
  const std::string cause = std::generic_category().message(error);
  return Error(
      Reason::kBackend,
      absl::StrCat("cannot create a segment: ", call, ": ", cause, ": ", FormatBytes(size)),
      {{"call", call}, {"cause", cause}, {"bytes", absl::StrCat(size.count())}});
}

// Where vm.memfd_noexec is 2, memory that might be executed is refused; kernels before 6.3 do not
// know the flag.
UniqueFd CreateMemfd(SegmentUse use, bool huge) {
  const unsigned flags =
      MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? unsigned{MFD_HUGETLB | MFD_HUGE_2MB} : 0U);
  UniqueFd fd(::memfd_create(NameOf(use), flags | MFD_NOEXEC_SEAL));
  if (!fd.valid() && errno == EINVAL) fd.Reset(::memfd_create(NameOf(use), flags));
  return fd;
}

// Takes every page, in steps, since a signal undoes the whole of the call that it interrupts. The
// pages are not touched: reads into the Segment clear and map them on all their threads, while
// whoever creates Segments is one thread.
Status Allocate(int fd, Bytes size) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && size.count() > limit.rlim_cur) {
    return CallFailed("fallocate", size, EFBIG);  // the kernel would send SIGXFSZ
  }
  for (Bytes done; done < size;) {
    const int failed =
        ::fallocate(fd, 0, static_cast<off_t>(done.count()), static_cast<off_t>(kHugePage.count()));
    if (failed == 0) {
      done += kHugePage;
    } else if (errno != EINTR) {
      return CallFailed("fallocate", size, errno);
    }
  }
  return absl::OkStatus();
}

// A writable map of a whole fd.
class Mapping {
 public:
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() { Unmap(); }

  std::span<std::byte> bytes() const { return bytes_; }
  void Unmap() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
    bytes_ = {};
  }

 private:
  std::span<std::byte> bytes_;
};

// Maps at a multiple of 2 MiB, so that one table entry can serve 2 MiB where the pages are large:
// reserves enough for any start, and gives back what sticks out.
StatusOr<Mapping> Map(int fd, Bytes size) {
  const size_t length = size.count();
  const size_t slack = kHugePage.count();
  void* reserved = ::mmap(nullptr, length + slack, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return CallFailed("mmap", size, errno);
  auto* const base = static_cast<std::byte*>(reserved);
  const Bytes address(reinterpret_cast<uintptr_t>(reserved));
  const size_t head = (AlignUp(address, kHugePage) - address).count();
  std::byte* const start = base + head;
  if (::mmap(start, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int error = errno;
    ::munmap(base, length + slack);
    return CallFailed("mmap", size, error);
  }
  if (head > 0) ::munmap(base, head);
  if (head < slack) ::munmap(start + length, slack - head);
  Mapping mapping({start, length});
  // A forked child that the daemon did not mean to have must not pin weights.
  if (::madvise(start, length, MADV_DONTFORK) != 0) return CallFailed("madvise", size, errno);
  return mapping;
}

class HostBacking final : public Segment::Backing {
 public:
  HostBacking(UniqueFd fd, Mapping mapping, SegmentTally& tally, PinWatch& pins)
      : tally_(tally), pins_(pins), fd_(std::move(fd)), mapping_(std::move(mapping)) {}
  ~HostBacking() override {
    const Bytes given_back = size();
    mapping_.Unmap();
    if (exported_ && pins_.works()) {
      pins_.LetGo(std::move(fd_), given_back);
    } else {
      fd_.Reset();
    }
    tally_.Destroyed(given_back);
  }

  Bytes size() const override { return Bytes(mapping_.bytes().size()); }
  std::span<std::byte> host_view() const override { return mapping_.bytes(); }

  StatusOr<UniqueFd> Export() const override {
    UniqueFd copy(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) {
      const std::string cause = std::generic_category().message(errno);
      return Error(Reason::kBackend, absl::StrCat("cannot export a segment: dup: ", cause),
                   {{"call", "dup"}, {"cause", cause}});
    }
    exported_ = true;
    tally_.Exported();
    return copy;
  }

 private:
  SegmentTally& tally_;
  PinWatch& pins_;
  mutable std::atomic<bool> exported_ = false;
  UniqueFd fd_;
  Mapping mapping_;
};

}  // namespace

StatusOr<std::unique_ptr<Segment::Backing>> MakeHostSegment(SegmentUse use, Bytes size, bool huge,
                                                            SegmentTally& tally, PinWatch& pins) {
  UniqueFd fd = CreateMemfd(use, huge);
  if (!fd.valid()) return CallFailed("memfd_create", size, errno);
  TENURE_RETURN_IF_ERROR(Allocate(fd.get(), size));
  TENURE_ASSIGN_OR_RETURN(Mapping mapping, Map(fd.get(), size));
  if (::fcntl(fd.get(), F_ADD_SEALS, SealsOf(use)) != 0)
    return CallFailed("F_ADD_SEALS", size, errno);
  tally.Created(size, huge);
  return std::make_unique<HostBacking>(std::move(fd), std::move(mapping), tally, pins);
}

}  // namespace tenure
