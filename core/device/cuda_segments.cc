#include "core/device/cuda_segments.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <numeric>
#include <utility>

#include "core/base/unique_fd.h"

namespace tenure {

// One allocation of the driver's, and where the daemon has it mapped once it is.
class CudaSegments::Backing final : public Segment::Backing {
 public:
  Backing(CudaSegments& owner, CUmemGenericAllocationHandle handle, Bytes size)
      : owner_(owner), handle_(handle), size_(size) {}

  // A driver that does not give the addresses back keeps them for good: nothing else is mapped
  // there.
  ~Backing() override {
    CudaGpu& gpu = owner_.gpu_;
    if (mapped_ && gpu.Call("cuMemUnmap", &CudaDriver::cuMemUnmap,
                            CUdeviceptr{addresses_.begin().count()}, size_t{size_.count()})
                       .ok()) {
      mapped_ = false;
    }
    (void)gpu.Call("cuMemRelease", &CudaDriver::cuMemRelease, handle_);
    if (!mapped_) owner_.GiveAddresses(addresses_);
    if (counted_) owner_.tally_.Destroyed(size_);
  }

  // REQUIRES: `addresses` were taken for this, and are as many as its bytes.
  Status Map(Range addresses) {
    addresses_ = addresses;
    TENURE_RETURN_IF_ERROR(owner_.gpu_.Call("cuMemMap", &CudaDriver::cuMemMap,
                                            CUdeviceptr{addresses.begin().count()},
                                            size_t{size_.count()}, size_t{0}, handle_, 0ULL));
    mapped_ = true;
    return absl::OkStatus();
  }

  void Count() {
    owner_.tally_.Created(size_, /*huge_pages=*/false);
    counted_ = true;
  }

  Bytes size() const override { return size_; }
  std::span<std::byte> host_view() const override { return {}; }
  DeviceAddress device_address() const override {
    return DeviceAddress(addresses_.begin().count());
  }

  StatusOr<UniqueFd> Export() const override {
    int exported = -1;
    TENURE_RETURN_IF_ERROR(owner_.gpu_.Call(
        "cuMemExportToShareableHandle", &CudaDriver::cuMemExportToShareableHandle,
        static_cast<void*>(&exported), handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ULL));
    UniqueFd fd(exported);
    if (::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
      return Error(Reason::kBackend, "cannot export a segment: the driver's fd is none");
    }
    owner_.tally_.Exported();
    return fd;
  }

 private:
  CudaSegments& owner_;
  const CUmemGenericAllocationHandle handle_;
  const Bytes size_;
  Range addresses_;
  bool mapped_ = false;
  bool counted_ = false;
};

StatusOr<std::unique_ptr<CudaSegments>> CudaSegments::Reserve(CudaGpu& gpu, Bytes address_space,
                                                              bool gpudirect, SegmentTally& tally) {
  const Bytes granule = gpu.properties().granule;
  const Bytes size = AlignUp(address_space, granule);
  CUdeviceptr base = 0;
  TENURE_RETURN_IF_ERROR(gpu.Call("cuMemAddressReserve", &CudaDriver::cuMemAddressReserve, &base,
                                  size_t{size.count()}, size_t{granule.count()}, CUdeviceptr{0},
                                  0ULL));
  CUmemAllocationProp allocation = gpu.allocation();
  allocation.allocFlags.gpuDirectRDMACapable = gpudirect ? 1 : 0;
  std::unique_ptr<CudaSegments> segments(
      new CudaSegments(gpu, allocation, Range(Bytes(base), Bytes(base) + size), tally));
  TENURE_RETURN_IF_ERROR(gpu.Bind());
  TENURE_RETURN_IF_ERROR(gpu.Call("cuStreamCreate", &CudaDriver::cuStreamCreate,
                                  &segments->clearing_, unsigned{CU_STREAM_NON_BLOCKING}));
  return segments;
}

CudaSegments::~CudaSegments() {
  // What the driver says to a process that leaves changes nothing.
  if (clearing_ != nullptr) {
    (void)gpu_.Call("cuStreamDestroy", &CudaDriver::cuStreamDestroy, clearing_);
  }
  (void)gpu_.Call("cuMemAddressFree", &CudaDriver::cuMemAddressFree,
                  CUdeviceptr{addresses_.begin().count()}, size_t{addresses_.size().count()});
}

StatusOr<std::vector<Segment>> CudaSegments::Create(std::span<const Bytes> sizes) {
  Backings backings;
  backings.reserve(sizes.size());
  for (const Bytes size : sizes) {
    TENURE_CHECK(!size.zero() && (size % gpu_.properties().granule).zero());
    CUmemGenericAllocationHandle handle = 0;
    TENURE_RETURN_IF_ERROR(gpu_.Call("cuMemCreate", &CudaDriver::cuMemCreate, &handle,
                                     size_t{size.count()}, &allocation_, 0ULL));
    backings.push_back(std::make_unique<Backing>(*this, handle, size));
  }
  const std::span<const std::unique_ptr<Backing>> all = backings;
  const Bytes total = std::accumulate(sizes.begin(), sizes.end(), Bytes(0));
  if (all.empty()) return std::vector<Segment>();
  if (const std::optional<Range> together = TakeAddresses(total)) {
    TENURE_RETURN_IF_ERROR(MapRun(all, *together));
  } else {
    for (size_t i = 0; i < all.size(); ++i) {
      const std::optional<Range> alone = TakeAddresses(sizes[i]);
      if (!alone.has_value()) {
        return Error(Reason::kBackend, "no addresses are left to map a segment at");
      }
      TENURE_RETURN_IF_ERROR(MapRun(all.subspan(i, 1), *alone));
    }
  }
  std::vector<Segment> segments;
  segments.reserve(backings.size());
  for (std::unique_ptr<Backing>& backing : backings) {
    backing->Count();
    segments.emplace_back(std::move(backing));
  }
  return segments;
}

std::optional<Range> CudaSegments::TakeAddresses(Bytes size) {
  const MutexLock lock(mutex_);
  return free_.Take(size);
}

void CudaSegments::GiveAddresses(Range addresses) {
  const MutexLock lock(mutex_);
  free_.Give(addresses);
}

Status CudaSegments::MapRun(std::span<const std::unique_ptr<Backing>> backings, Range addresses) {
  Bytes next = addresses.begin();
  Status mapped;
  for (const std::unique_ptr<Backing>& backing : backings) {
    const Range place(next, next + backing->size());
    mapped = backing->Map(place);
    next = place.end();
    if (!mapped.ok()) break;
  }
  // Each Backing gives back what it was given.
  GiveAddresses(Range(next, addresses.end()));
  TENURE_RETURN_IF_ERROR(mapped);

  CUmemAccessDesc access{};
  access.location = allocation_.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  TENURE_RETURN_IF_ERROR(gpu_.Call("cuMemSetAccess", &CudaDriver::cuMemSetAccess,
                                   CUdeviceptr{addresses.begin().count()},
                                   size_t{addresses.size().count()}, &access, size_t{1}));
  return Clear(addresses);
}

// The driver does not promise that new memory is clear: it may hold what another model left.
Status CudaSegments::Clear(Range addresses) {
  TENURE_RETURN_IF_ERROR(gpu_.Bind());
  TENURE_RETURN_IF_ERROR(gpu_.Call(
      "cuMemsetD8Async", &CudaDriver::cuMemsetD8Async, CUdeviceptr{addresses.begin().count()},
      static_cast<unsigned char>(0), size_t{addresses.size().count()}, clearing_));
  return gpu_.Await("cuStreamSynchronize", &CudaDriver::cuStreamSynchronize, clearing_);
}

}  // namespace tenure
