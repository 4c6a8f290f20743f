#include "core/device/cuda_device.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "core/base/mutex.h"
#include "core/device/cuda_driver.h"
#include "core/device/cuda_gpu.h"
#include "core/device/cuda_segments.h"
#include "core/device/cuda_writers.h"
#include "core/device/segment_tally.h"

namespace tenure {
namespace {

// The largest piece that a copy travels in.
constexpr Bytes kStagingBuffer = MiB(4);

// Times the GPU's memory, so that runs of new Segments find free addresses side by side.
constexpr uint64_t kAddressSpace = 4;

constexpr Duration kLookInterval = std::chrono::milliseconds(500);

bool Usable(const CudaProperties& gpu) { return gpu.virtual_memory && gpu.posix_fds; }

class CudaDevice final : public Device {
 public:
  static StatusOr<std::unique_ptr<Device>> Make(const CudaDeviceOptions& options,
                                                std::unique_ptr<CudaGpu> gpu) {
    std::unique_ptr<CudaDevice> device(new CudaDevice(options, std::move(gpu)));
    const CudaProperties& properties = device->gpu_->properties();
    TENURE_ASSIGN_OR_RETURN(
        device->segments_,
        CudaSegments::Reserve(*device->gpu_, properties.total * kAddressSpace,
                              options.gpudirect && properties.gpudirect, device->tally_));
    TENURE_ASSIGN_OR_RETURN(device->writers_,
                            CudaWriters::Make(*device->gpu_, options.writers, kStagingBuffer));
    TENURE_RETURN_IF_ERROR(device->MeasureForeign());
    device->looking_ = std::thread([device = device.get()] { device->KeepLooking(); });
    return device;
  }

  ~CudaDevice() override {
    {
      const MutexLock lock(mutex_);
      closing_ = true;
      closed_.NotifyAll();
    }
    if (looking_.joinable()) looking_.join();
  }

  const DeviceInfo& info() const override { return info_; }

  StatusOr<std::vector<Segment>> CreateSegments(SegmentUse, std::span<const Bytes> sizes) override {
    return segments_->Create(sizes);
  }

  StatusOr<std::unique_ptr<SegmentWriter>> OpenWriter() override { return writers_->Open(); }

  BackendCounters counters() const override { return tally_.Read(); }
  Bytes foreign() const override { return Bytes(foreign_); }
  std::optional<Bytes> stranded(SegmentUse) const override { return std::nullopt; }
  Status Look() override { return gpu_->Look(); }

 private:
  CudaDevice(const CudaDeviceOptions& options, std::unique_ptr<CudaGpu> gpu)
      : info_{.name = options.name,
              .backend = "cuda",
              .uuid = gpu->properties().uuid,
              .total = gpu->properties().total,
              .granule = gpu->properties().granule},
        gpu_(std::move(gpu)) {}

  // The driver counts this process's context as used, and so does this.
  Status MeasureForeign() {
    TENURE_RETURN_IF_ERROR(gpu_->Bind());
    size_t free = 0;
    size_t total = 0;
    const BackendCounters before = tally_.Read();
    TENURE_RETURN_IF_ERROR(gpu_->Call("cuMemGetInfo", &CudaDriver::cuMemGetInfo, &free, &total));
    const Bytes own = before.bytes_created - before.bytes_destroyed;
    foreign_ = SaturatingSub(Bytes(total - free), own).count();
    return absl::OkStatus();
  }

  // Asking may take as long as the driver likes, so nobody waits for the answer.
  void KeepLooking() ABSL_LOCKS_EXCLUDED(mutex_) {
    while (true) {
      {
        const MutexLock lock(mutex_);
        if (!closing_) closed_.WaitFor(mutex_, kLookInterval);
        if (closing_) return;
      }
      if (!MeasureForeign().ok() && !gpu_->Lost().ok()) return;
    }
  }

  const DeviceInfo info_;
  SegmentTally tally_;
  const std::unique_ptr<CudaGpu> gpu_;
  std::unique_ptr<CudaSegments> segments_;
  std::unique_ptr<CudaWriters> writers_;
  std::atomic<uint64_t> foreign_ = 0;

  Mutex mutex_;
  CondVar closed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread looking_;
};

}  // namespace

bool HasCudaBackend() { return true; }

StatusOr<std::vector<FoundGpu>> FindGpus() {
  TENURE_ASSIGN_OR_RETURN(const CudaDriver driver, OpenCudaDriver());
  TENURE_ASSIGN_OR_RETURN(const std::vector<CudaProperties> gpus, ListCudaGpus(driver));
  std::vector<FoundGpu> found;
  for (const CudaProperties& gpu : gpus) {
    if (Usable(gpu)) found.push_back({.uuid = gpu.uuid, .model = gpu.name, .total = gpu.total});
  }
  return found;
}

StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const CudaDeviceOptions& options,
                                                 const Clock& clock) {
  TENURE_ASSIGN_OR_RETURN(const CudaDriver driver, OpenCudaDriver());
  TENURE_ASSIGN_OR_RETURN(const std::vector<CudaProperties> gpus, ListCudaGpus(driver));
  const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const CudaProperties& each) {
    return each.uuid == options.uuid;
  });
  if (gpu == gpus.end()) {
    const std::string visible = absl::StrJoin(
        gpus, ", ", [](std::string* out, const auto& each) { absl::StrAppend(out, each.uuid); });
    return Error(Reason::kDeviceNotFound,
                 absl::StrCat("the driver shows no such GPU: ", options.uuid, "; it shows ",
                              visible.empty() ? "none" : visible),
                 {{"uuid", options.uuid}, {"visible", visible}});
  }
  if (!Usable(*gpu)) {
    const std::string lacking = gpu->virtual_memory ? "POSIX fds for its memory" : "virtual memory";
    return Error(Reason::kBackend,
                 absl::StrCat("the driver does not offer ", lacking, " on ", gpu->uuid),
                 {{"uuid", gpu->uuid}, {"lacking", lacking}});
  }
  TENURE_ASSIGN_OR_RETURN(std::unique_ptr<CudaGpu> opened,
                          CudaGpu::Open(driver, *gpu, clock, options.driver_timeout));
  return CudaDevice::Make(options, std::move(opened));
}

}  // namespace tenure
